"""What trains or plays to find something out.

A machine's health, how long a run takes, a run folder made to play again, whole studies.
"""

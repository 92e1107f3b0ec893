"""What a seat may believe about what is hidden.

One file per game that oracle ``posterior`` judges.
"""

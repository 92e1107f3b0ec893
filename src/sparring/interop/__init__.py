"""Our estimators and losses in other people's trainers.

Each module imports its trainer, and only when it is itself imported.
"""

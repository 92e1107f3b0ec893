"""Sparring's estimators and losses in other trainers.

Each module imports its trainer only when it is itself imported.
"""

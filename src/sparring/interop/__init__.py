"""Bridges to the trainers verl and TRL, which can then use Sparring's estimators and losses.

``verl.py`` imports verl and ``trl.py`` imports TRL; no other module needs these packages.
"""

"""Columns of the turn table that are computed on demand: file name = name in NEEDS = column."""

"""Columns of the turn table, computed on demand; a module's name is the column's name in NEEDS."""

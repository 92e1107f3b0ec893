"""Which moves keep a puzzle solvable: one file per game that oracle ``constraint`` judges."""

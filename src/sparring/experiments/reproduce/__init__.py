"""The studies that `sparring reproduce` runs: one file each, of its name; see ``experiments.study``."""

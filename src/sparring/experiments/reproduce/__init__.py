"""The studies that `sparring reproduce` runs: a file each; see ``experiments.study``."""

"""The tables of each study that `sparring reproduce` runs: one file per study, of its name."""

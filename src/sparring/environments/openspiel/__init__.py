"""OpenSpiel games in words: the only package that imports pyspiel."""

OPENSPIEL = "open_spiel"  # its name among installed packages

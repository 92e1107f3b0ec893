"""OpenSpiel games in words: the only package that imports pyspiel."""

OPENSPIEL = "open_spiel"  # name of the installed package with pyspiel

"""OpenSpiel: the one room that reads pyspiel. Rules that can be searched, in words."""

OPENSPIEL = "open_spiel"  # its name among installed packages

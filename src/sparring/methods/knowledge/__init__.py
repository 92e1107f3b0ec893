"""Gradient-free state of a run that judges its plays: what a run knows beside its weights."""

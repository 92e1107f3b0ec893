"""Fleets: the places where workers run."""

"""Exact or strong judges of a state."""

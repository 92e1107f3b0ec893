"""Fleets, which run workers: processes of this machine, or Ray."""

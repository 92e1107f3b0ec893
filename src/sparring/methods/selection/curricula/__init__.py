"""Curricula: which games and initial states the next groups have."""

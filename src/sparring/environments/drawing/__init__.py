"""Pieces of pictures: a canvas that grows downwards, and what environments draw on it."""

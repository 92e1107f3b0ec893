"""Replay rules: which finished episodes are stored, and which are trained on again."""

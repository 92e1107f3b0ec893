"""Replay rules: which finished episodes the buffer stores, and which the update uses again."""

"""Rollout plans: at which state each episode of a group begins."""

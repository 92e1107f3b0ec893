"""The loop of a run: steps, state, checkpoints, metrics, health and its folder."""

"""From specs to episodes: players, context strategies, rollout plans and the loop."""

"""The learner: packed episodes to updated weights, and snapshots of them."""

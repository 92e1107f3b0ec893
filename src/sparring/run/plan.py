"""What a configuration would do, before it does it."""

from __future__ import annotations

import json

from sparring.config import RunConfig


def describe(config: RunConfig) -> str:
    """Return the plan of a run as JSON: what is played, with which methods, and how much of it."""
    steps, rollout = config.steps, config.rollout
    plan = {
        "recipe": config.name,
        "summary": config.summary,
        "games": [game.name for game in config.games],
        "steps": steps,
        "games_in_all": steps * rollout.games_per_step,
        "updates": steps * config.learner.epochs * config.learner.minibatches,
        "groups": f"{rollout.games_per_step // rollout.group_size} starts of {rollout.group_size} games per step",
        "credit": config.credit.name,
        "losses": [loss.name for loss in config.losses],
        "matchmaker": config.matchmaker.name,
        "checkpoints": steps // config.checkpoint.every + (steps % config.checkpoint.every > 0),
        "evaluations": steps // config.evaluation.every + 1,
    }
    return json.dumps(plan, indent=2)

"""Who plays a run and who learns, and what memory it takes, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.config import RunConfig

HELD = ("weights", "keys_and_values_kept", "program")  # parts of memory that a worker has too
LEARNS = ("weights", "training", "activations_and_logits", "program")  # and a further learner


def players(config: RunConfig, memory: Mapping[str, float] | None) -> dict[str, Any]:
    """Return who plays, how many units a step has, and how far play is ahead of learning.

    Args:
        config: of the run.
        memory: GiB of the training process by part, as ``plan.describe`` gives them; None: not
            known. A worker holds the models too, but no gradients, optimiser or activations.
    """
    scale, rollout = config.scale, config.rollout
    if not scale.workers:
        return {"fleet": "the training process", "lag": scale.lag}
    groups = -(-scale.unit_games // rollout.group_size)  # of a unit: groups stay whole
    plays = min(groups * rollout.group_size, rollout.games_per_step)
    found: dict[str, Any] = {
        "fleet": scale.fleet,
        "workers": scale.count,
        "units_per_step": -(-rollout.games_per_step // plays),
        "plays_per_unit": plays,
        "lag": scale.lag,
    }
    if memory is not None:
        each = sum(memory.get(name, 0.0) for name in HELD)
        found["memory_gib_per_worker"] = round(each, 2)
    return found


def learners(config: RunConfig, memory: Mapping[str, float] | None) -> dict[str, Any]:
    """Return how many learners a run has, and into how many leaves they cut a minibatch.

    Args:
        config: of the run.
        memory: GiB of the training process by part; None: not known. Each of the others holds
            weights, gradients, optimiser and activations, and no keys and values.
    """
    found: dict[str, Any] = {"ranks": config.learner.ranks, "leaves": config.learner.leaves}
    if memory is not None and config.learner.ranks > 1:
        each = sum(memory.get(name, 0.0) for name in LEARNS)
        found["memory_gib_per_further_learner"] = round(each, 2)
    return found

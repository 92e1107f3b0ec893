"""Who plays a run, and what memory it takes, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.config import RunConfig

HELD = ("weights", "keys_and_values_kept", "program")  # parts of memory that a worker has too


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

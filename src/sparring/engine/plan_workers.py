"""Who plays a run and who learns, and what memory it takes, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparring.config import RunConfig
from sparring.engine.plan import activations, size_in
from sparring.learn.snapshots import planned
from sparring.models.memory import GIB, PROGRAM, learning_bytes

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
    if config.learner.sharding != "none":
        found["sharding"] = config.learner.sharding
    if config.learner.shards:
        own = [one for name, one in config.by_policy.items() if not config.is_frozen(name)]
        parts = [part for part in map(shard, own) if part is not None]
        if len(parts) == len(own):  # all are known; one learns after the other
            most = sum(part.split for part in parts) + max(part.whole for part in parts)
            found["memory_gib_per_learner"] = round((PROGRAM + most) / GIB, 2)
        return found
    if memory is not None and config.learner.ranks > 1:
        each = sum(memory.get(name, 0.0) for name in LEARNS)
        found["memory_gib_per_further_learner"] = round(each, 2)
    return found


class ShardBytes(NamedTuple):
    """What a learner holds of a policy whose weights are split."""

    split: int  # its part of weights, gradients, moments and copies
    whole: int  # what is there for a time: weights that are whole, their gradients, activations


def shard(config: RunConfig) -> ShardBytes | None:
    """Return about what one of several learners holds of a policy; None where it is not known.

    It makes the whole model when it starts, and splits it then.

    Args:
        config: of a run that has this policy alone.
    """
    parameters, shape, _ = size_in(config)
    if parameters is None:
        return None
    size, kept = config.model.weight_bytes, planned(config)
    each = size * (1 + kept["average"] + kept["reference"])
    each += learning_bytes(size, master=config.learner.master_weights)
    part = -(-parameters * each // config.learner.ranks)
    whole = parameters
    if shape is not None:  # this block and the next, and what is in no block
        outside = shape.vocabulary * shape.hidden
        whole = min(parameters, outside + 2 * (parameters - outside) // shape.layers)
    each_pass = config.learner.gradient_sync == "pass"  # else a leaf may take several passes
    gradients = whole if each_pass else parameters
    passes = (whole + gradients) * size + (activations(config, shape, size) or 0)
    return ShardBytes(part, max(passes, parameters * size - part))

"""What a configuration would do, and what it takes, before it does it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.engine.vocabulary import vocabulary
from sparring.environments.catalogue import configured_game
from sparring.errors import ConfigError
from sparring.learn.snapshots import planned_copies
from sparring.models.memory import (
    GIB,
    PROGRAM,
    Shape,
    activation_bytes,
    available_bytes,
    find_device,
    learning_bytes,
    training_bytes,
)
from sparring.models.words import SPECIAL
from sparring.refs import MAIN
from sparring.registry import Bound, asks

TINY = "tiny"  # the name of the model that is built, not loaded
TINY_CONTEXT = 128  # tokens of the tiny model's conversations, where model.context does not say
TOLD = 64  # tokens a seat is told between its replies, taken for the estimate of memory
GPU_WEIGHTS = 2 * GIB  # models of this size and more are no work for a CPU
GPU_SIZES = (24, 48, 80, 141)  # of usual GPUs, GB
LORA_SHARE = 0.01  # of a model's parameters, for adapters of rank 16 on every linear layer


def describe(config: RunConfig) -> dict[str, Any]:
    """Return the plan of a run: what is played, with which methods, and what it takes."""
    steps, rollout = config.steps, config.rollout
    return {
        "recipe": config.name,
        "summary": config.summary,
        "games": [game.known_as for game in config.environments if game.weight],
        "held_out": [game.known_as for game in config.environments if not game.weight],
        "steps": steps,
        "games_in_all": steps * rollout.games_per_step,
        "updates": steps * config.learner.epochs * config.learner.minibatches,
        "groups": (
            f"{rollout.games_per_step // rollout.group_size} starts of {rollout.group_size} games "
            "per step"
        ),
        "plan": rollout.plan.name,
        "sampled_tokens_per_step_at_most": sampled_tokens(config),
        **_methods(config),
        "rewards": [reward.name for reward in config.rewards],
        "matchmaker": config.matchmaker.name,
        "checkpoints": steps // config.checkpoint.every + (steps % config.checkpoint.every > 0),
        "evaluations": sum(config.evaluation.is_due(step, steps) for step in range(1, steps + 1)),
        "model": _model(config),
    }


def _methods(config: RunConfig) -> dict[str, Any]:
    """Return how each policy is asked and trained."""
    if config.policies:
        return {"policies": {name: _methods(own) for name, own in config.by_policy.items()}}
    return {
        "renderer": {"name": config.renderer.name, **_settings(config.renderer.bind("render"))},
        "context": config.context.name,
        "credit": config.credit.name,
        **_process(config),
        "losses": [loss.name for loss in config.losses],
    }


def _process(config: RunConfig) -> dict[str, int]:
    """Return the most updates that the reward model gets in a run; nothing where there is none."""
    has_one = "process" in asks(config.credit.bind("credit"))
    return {"updates_of_process_model": config.steps * config.process.updates} if has_one else {}


def _settings(bound: Bound) -> dict[str, Any]:
    """Return all options of a plug-in, those that are left at their defaults as well."""
    parameters = inspect.signature(bound.plugin.function).parameters.values()
    return {
        **{
            p.name: p.default
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
        },
        **bound.options,
    }


def sampled_tokens(config: RunConfig) -> int:
    """Return the most tokens a step can sample: each game and each reply as long as may be."""
    games = [configured_game(section) for section in config.environments]
    weights = [
        game.weight / sum(other.weight for other in config.environments)
        for game in config.environments
    ]
    turns = sum(weight * game.max_turns for weight, game in zip(weights, games, strict=True))
    replies = config.rollout.games_per_step * config.rollout.candidates.count
    return round(replies * turns * config.rollout.max_new_tokens)


def _model(config: RunConfig) -> dict[str, Any]:
    """Return the models' names, sizes and memory, and in words whether they fit."""
    found = {name: _sized(own, config.is_frozen(name)) for name, own in config.by_policy.items()}
    plan, known = found[MAIN] if not config.policies else _together(config, found)
    if known is None:
        return plan
    gib = {name: round(value / GIB, 2) for name, value in known.items()}
    return {
        **plan,
        "memory_gib": round(sum(known.values()) / GIB, 1),
        "memory_parts_gib": gib,
        "needs": _needs(config, known),
    }


def _together(
    config: RunConfig, found: Mapping[str, tuple[dict[str, Any], dict[str, int] | None]]
) -> tuple[dict[str, Any], dict[str, int] | None]:
    """Return the plan of several models and the memory of all.

    A shared base counts once. They are updated one after the other, so that activations are those
    of the largest.
    """
    plan: dict[str, Any] = {"policies": {name: own for name, (own, _) in found.items()}}
    if any(parts is None for _, parts in found.values()):
        return {**plan, "needs": "unknown: a model is not on this machine"}, None
    plan["parameters"] = sum(own["parameters"] for own, _ in found.values())
    total, bases = dict[str, int](), set[tuple[str, str, str]]()
    for name, (_, parts) in found.items():
        model = config.policies[name].model
        base = (model.name, model.dtype, model.device)
        shared = model.name != TINY and (model.lora is not None or config.is_frozen(name))
        for part, value in (parts or {}).items():
            once = part in ("program", "activations_and_logits")
            once = once or (part == "weights" and shared and base in bases)
            total[part] = max(total.get(part, 0), value) if once else total.get(part, 0) + value
        bases |= {base} if shared else set()
    return plan, total


def _sized(config: RunConfig, frozen: bool) -> tuple[dict[str, Any], dict[str, int] | None]:
    """Return a model's name and size, and the bytes of its parts of memory; None if not known."""
    chosen, size = config.model, config.model.weight_bytes
    plan: dict[str, Any] = {"name": chosen.name, **({"frozen": True} if frozen else {})}
    parameters, shape, source = size_in(config)
    if chosen.name == TINY:
        plan.update({"hidden_size": chosen.hidden_size, "layers": chosen.layers})
    else:
        plan.update({"dtype": chosen.dtype, "adapters": chosen.lora is not None})
    if parameters is None:
        return {**plan, "needs": f"unknown: the model is not on this machine ({source})"}, None
    plan["parameters"] = parameters
    if chosen.name != TINY:
        plan["parameters_from"] = source
    kept = _settings(config.sampler.bind("samplers")).get("cache_bytes", 0)
    if (
        chosen.name == TINY and shape is not None
    ):  # a step's conversations are short and few, far below the limit
        kept = min(kept, _tiny_cache(config, shape))
    parts = {
        "weights": parameters * size,
        "training": 0 if frozen else memory_to_train(config, parameters),
        "keys_and_values_kept": kept,
        "activations_and_logits": (
            0
            if frozen or config.learner.shards  # learners are other processes then
            else activations(config, shape, size)
        ),
        "program": PROGRAM,
    }
    return plan, {name: value for name, value in parts.items() if value is not None}


def _needs(config: RunConfig, parts: Mapping[str, int]) -> str:
    """Return in words whether so much memory is here, and whether a GPU is needed."""
    try:
        device = find_device(config.model.device if config.model.name != TINY else "cpu")
    except ConfigError:  # planned here, run elsewhere
        device = torch.device("cpu")
    needed, have, where = (
        sum(parts.values()),
        available_bytes(device),
        "GPU" if device.type == "cuda" else "machine",
    )
    fits = (
        f"fits into this {where}'s"
        if needed < have
        else f"needs a larger {where} or adapters (model.lora.rank=16); this one has"
    )
    missing = (
        ""
        if "activations_and_logits" in parts
        else ", activations left out as the model's shape is not known here"
    )
    return (
        f"about {needed / GIB:.1f} GiB (an estimate{missing}): {fits} {have / GIB:.1f} "
        f"GiB. {_gpu(needed, parts['weights'])}"
    )


def _gpu(needed: int, weights: int) -> str:
    """Return in words whether a GPU is needed, and how large a one."""
    if weights < GPU_WEIGHTS:
        return "No GPU is needed."
    size = next((size for size in GPU_SIZES if needed < 0.9 * size * GIB), None)
    large = (
        f"one of {size} GB"
        if size is not None
        else (
            f"several, {needed / GIB:.0f} GiB in all, which this version does not use; train "
            "adapters"
        )
    )
    return f"A GPU is needed to finish in reasonable time: {large}."


def size_in(config: RunConfig) -> tuple[int | None, Shape | None, str]:
    """Return a model's parameters and shape, if they are known, and where from."""
    if config.model.name == TINY:
        return *tiny_size(config), "the configuration"
    from sparring.models.pretrained import known_size

    return known_size(config.model.name)


def tiny_size(config: RunConfig) -> tuple[int, Shape]:
    """Return the number of parameters and the shape of the tiny model, without making it."""
    chosen = config.model
    width, words = chosen.hidden_size, len(vocabulary(config) | set(SPECIAL))
    shape = Shape(
        layers=chosen.layers,
        hidden=width,
        inner=4 * width,
        attention=3 * width,
        vocabulary=words,
    )
    return tiny_parameters(config, words), shape


def tiny_parameters(config: RunConfig, vocabulary: int) -> int:
    """Return the number of parameters of the tiny model with so many words."""
    chosen, width = config.model, config.model.hidden_size
    block = 12 * width * width + 13 * width
    return (vocabulary + (chosen.context or TINY_CONTEXT) + 2) * width + chosen.layers * block


def _tiny_cache(config: RunConfig, shape: Shape) -> int:
    """Return the most that the tiny model's kept keys and values can be: every conversation of a
    step, each whole.
    """
    games = [configured_game(section) for section in config.environments]
    seats = max(game.num_seats for game in games)
    return (
        config.rollout.games_per_step
        * seats
        * (config.model.context or TINY_CONTEXT)
        * shape.layers
        * 2
        * shape.hidden
        * 4
    )


def activations(config: RunConfig, shape: Shape | None, size: int) -> int | None:
    """Return about what a forward and backward pass keeps.

    None where the model's shape is not known.

    Every reply is taken to be as long as it may be, after ``TOLD`` tokens that the seat is told.
    """
    if shape is None:
        return None
    tokens, reply = config.learner.micro_tokens, config.rollout.max_new_tokens
    asked = round(tokens * reply / (reply + TOLD))
    return activation_bytes(
        shape,
        tokens=tokens,
        asked=asked,
        size=size,
        checkpointing=config.model.gradient_checkpointing,
    )


def memory_to_train(config: RunConfig, parameters: int) -> int:
    """Return the bytes that training a model of so many parameters takes besides its weights,
    activations left out, in the training process.
    """
    chosen, copies = config.model, planned_copies(config)
    if chosen.lora is not None:
        return training_bytes(trained=round(parameters * LORA_SHARE), copies=copies)
    size, shards = chosen.weight_bytes, config.learner.shards  # if so, learners are other processes
    each = 0 if shards else learning_bytes(size, master=config.learner.master_weights)
    return training_bytes(trained=parameters, copies=copies, size=size, each=each)

"""What a configuration would do, and what it takes, before it does it."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.errors import ConfigError, SparringError
from sparring.games.catalogue import configured_game
from sparring.models.memory import GIB, available_bytes, training_bytes
from sparring.models.pretrained import DTYPES, parameters_of
from sparring.registry import Bound

TINY = "tiny"  # the name of the model that is built, not loaded
LORA_SHARE = 0.01  # of a model's parameters, for adapters of rank 16 on every linear layer


def describe(config: RunConfig) -> str:
    """Return the plan of a run as JSON: what is played, with which methods, how much of it, and what it takes."""
    steps, rollout = config.steps, config.rollout
    plan = {
        "recipe": config.name,
        "summary": config.summary,
        "games": [game.known_as for game in config.games if game.weight],
        "held_out": [game.known_as for game in config.games if not game.weight],
        "steps": steps,
        "games_in_all": steps * rollout.games_per_step,
        "updates": steps * config.learner.epochs * config.learner.minibatches,
        "groups": f"{rollout.games_per_step // rollout.group_size} starts of {rollout.group_size} games per step",
        "sampled_tokens_per_step_at_most": _tokens(config),
        "renderer": {"name": config.renderer.name, **_settings(config.renderer.bind("render"))},
        "credit": config.credit.name,
        "rewards": [reward.name for reward in config.rewards],
        "losses": [loss.name for loss in config.losses],
        "matchmaker": config.matchmaker.name,
        "checkpoints": steps // config.checkpoint.every + (steps % config.checkpoint.every > 0),
        "evaluations": steps // config.evaluation.every + 1,
        "model": _model(config),
    }
    return json.dumps(plan, indent=2)


def _settings(bound: Bound) -> dict[str, Any]:
    """Return all options of a plug-in, those that are left at their defaults as well."""
    parameters = inspect.signature(bound.plugin.function).parameters.values()
    return {**{p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}, **bound.options}


def _tokens(config: RunConfig) -> int:
    """Return the most tokens a step can sample: every game as long as its rules allow, every reply to its limit."""
    games = [configured_game(section) for section in config.games]
    weights = [game.weight / sum(other.weight for other in config.games) for game in config.games]
    turns = sum(weight * game.max_turns for weight, game in zip(weights, games, strict=True))
    return round(config.rollout.games_per_step * turns * config.rollout.max_new_tokens)


def _model(config: RunConfig) -> dict[str, Any]:
    """Return the model's name, size and memory, and in words whether it fits."""
    chosen = config.model
    if chosen.name == TINY:
        return {"name": TINY, "hidden_size": chosen.hidden_size, "layers": chosen.layers}
    parameters, source = _parameters(chosen.name)
    plan: dict[str, Any] = {"name": chosen.name, "dtype": chosen.dtype, "adapters": chosen.lora is not None}
    if parameters is None:
        return {**plan, "needs": f"unknown: the model is not on this machine ({source})"}
    needed = parameters * DTYPES[chosen.dtype].itemsize + memory_to_train(config, parameters)
    try:
        device = find_device(chosen.device)
    except ConfigError:  # planned here, run elsewhere
        device = torch.device("cpu")
    have, where = available_bytes(device), "GPU" if device.type == "cuda" else "machine"
    fits = f"fits into this {where}'s" if needed < have else f"needs a larger {where} or adapters (model.lora.rank=16); this one has"
    return {
        **plan,
        "parameters": parameters,
        "parameters_from": source,
        "memory_gib": round(needed / GIB, 1),
        "keys_and_values_kept_gib": round(_settings(config.sampler.bind("samplers")).get("cache_bytes", 0) / GIB, 1),
        "needs": f"{needed / GIB:.1f} GiB for weights, gradients, optimiser and copies, activations and kept keys and values left out: "
        f"{fits} {have / GIB:.1f} GiB",
    }


def find_device(name: str) -> torch.device:
    """Return the device of this name; "auto" is a GPU if there is one.

    Raises:
        ConfigError: this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"model.device={name!r} is not on this machine ({reason}); write model.device=auto.") from None


def memory_to_train(config: RunConfig, parameters: int) -> int:
    """Return the bytes that training a model of so many parameters takes besides its weights, activations left out."""
    chosen = config.model
    reference = any("reference_logprobs" in loss.bind("losses").plugin.needs for loss in config.losses)
    copies = (config.learner.average > 0) + reference + (config.league.keep if config.league.every else 0)
    if chosen.lora is not None:
        return training_bytes(trained=round(parameters * LORA_SHARE), copies=copies)
    return training_bytes(trained=parameters, copies=copies, size=DTYPES[chosen.dtype].itemsize)


def _parameters(name: str) -> tuple[int | None, str]:
    """Return the number of a model's parameters and where it is known from: its configuration, or its name ("4B")."""
    try:
        return parameters_of(name), "its configuration"
    except SparringError as error:
        found = re.search(r"(\d+(?:\.\d+)?)([BbMm])(?![a-zA-Z])", name.rpartition("/")[2])
        if found is None:
            return None, str(error)
        return round(float(found[1]) * (10**9 if found[2] in "Bb" else 10**6)), "its name, as the model is not on this machine"

"""Which GPUs the processes beside a run are given, and what their configuration says of them.

Each sees its own GPUs alone, counted from 0 (``core/process.py``): its first is its ``cuda``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.config.checks import CUDA, VLLM, learner_gpus
from sparring.core.errors import ConfigError


def check_there(gpus: Sequence[int], key: str) -> None:
    """Check that this machine has GPUs of these numbers.

    Args:
        gpus: their numbers.
        key: of the configuration that names them.

    Raises:
        ConfigError: it has fewer.
    """
    count = torch.cuda.device_count()
    missing = [gpu for gpu in gpus if gpu >= count]
    if missing:
        last = f", the last is {count - 1}" if count else ""
        raise ConfigError(
            f"{key} takes GPU {missing[0]}, and torch sees {count} on this machine, counted from "
            f"0{last}. Write other numbers, or take fewer (learner.ranks, scale.workers)."
        )


def gpus_of_learners(config: RunConfig, devices: Sequence[torch.device]) -> tuple[int, ...]:
    """Return the GPU that each learner takes; none where they are on the CPU.

    Args:
        config: of the run.
        devices: of the models in the training process.

    Raises:
        ConfigError: this machine has fewer.
    """
    if all(device.type != CUDA for device in devices):
        return ()
    gpus = learner_gpus(config)
    key = f"learner.gpus={list(gpus)}" if config.learner.gpus else f"learner.ranks={len(gpus)}"
    check_there(gpus, key)
    return gpus


def for_learner(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a learner that sees one GPU, its own.

    Args:
        settings: of the run, as values of JSON.
    """
    return _placed(settings, CUDA)


def for_worker(settings: Mapping[str, Any], gpus: float) -> dict[str, Any]:
    """Return the configuration of a worker that sees its own GPUs; without any, that of the run.

    Where replicas of vLLM draw its replies they have its GPUs, one each, and its models are in the
    machine's own memory: it does nothing with them but hand on their weights.

    Args:
        settings: of the run, as values of JSON.
        gpus: how many it has, or what share of one.
    """
    if not gpus:
        return dict(settings)
    count = max(int(gpus), 1)
    drawn = any(_draws(own) for own in _sections(settings))
    found = _placed(settings, "cpu" if drawn else CUDA)
    for own in _sections(found):
        if _draws(own):
            own["sampler"].update(replicas=count, gpus=list(range(count)))
    return found


def _placed(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    found = dict(settings)
    if found.get("policies"):
        found["policies"] = {name: dict(own) for name, own in found["policies"].items()}
    for own in _sections(found):
        own["model"], own["sampler"] = dict(own["model"]), dict(own["sampler"])
        wherever = device == "cpu" and own["model"]["device"] == "auto"  # would find a GPU it sees
        if wherever or own["model"]["device"].startswith(CUDA):
            own["model"]["device"] = device
    found["learner"] = {key: one for key, one in found["learner"].items() if key != "gpus"}
    found["scale"] = {**found["scale"], "share_gpus": True}  # numbers there are not its own
    return found


def _sections(settings: Mapping[str, Any]) -> Iterator[Any]:
    yield settings
    yield from settings.get("policies", {}).values()


def _draws(own: Mapping[str, Any]) -> bool:
    sampler: Mapping[str, Any] = own["sampler"]
    return (sampler["name"], sampler.get("device")) == (VLLM, CUDA)

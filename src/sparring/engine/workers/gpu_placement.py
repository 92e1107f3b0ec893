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


def check_gpus_exist(gpus: Sequence[int], key: str) -> None:
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
    check_gpus_exist(gpus, key)
    return gpus


def for_learner(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a learner that sees one GPU, its own.

    Args:
        settings: of the run, as values of JSON.
    """
    return _place_on_device(settings, CUDA)


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
    uses_replicas = any(_uses_vllm_on_gpu(section) for section in _sections(settings))
    placed = _place_on_device(settings, "cpu" if uses_replicas else CUDA)
    for section in _sections(placed):
        if _uses_vllm_on_gpu(section):
            section["sampler"].update(replicas=count, gpus=list(range(count)))
    return placed


def _place_on_device(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    placed = dict(settings)
    if placed.get("policies"):
        placed["policies"] = {name: dict(section) for name, section in placed["policies"].items()}
    for section in _sections(placed):
        section["model"], section["sampler"] = dict(section["model"]), dict(section["sampler"])
        wherever = (
            device == "cpu" and section["model"]["device"] == "auto"
        )  # would find a GPU it sees
        if wherever or section["model"]["device"].startswith(CUDA):
            section["model"]["device"] = device
    placed["learner"] = {key: value for key, value in placed["learner"].items() if key != "gpus"}
    placed["scale"] = {**placed["scale"], "share_gpus": True}  # numbers there are not its own
    return placed


def _sections(settings: Mapping[str, Any]) -> Iterator[Any]:
    yield settings
    yield from settings.get("policies", {}).values()


def _uses_vllm_on_gpu(section: Mapping[str, Any]) -> bool:
    sampler: Mapping[str, Any] = section["sampler"]
    return (sampler["name"], sampler.get("device")) == (VLLM, CUDA)

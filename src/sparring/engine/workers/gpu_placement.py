"""The GPUs of each learner and worker, and the configuration with which each of them runs.

Each process sees only its own GPUs, numbered from 0 (``core/process.py``); the first is ``cuda``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.config.checks import CUDA, VLLM, learner_gpus
from sparring.core.errors import ConfigError


def check_gpus_exist(gpus: Sequence[int], key: str) -> None:
    """Check that this machine has GPUs with these numbers.

    Args:
        gpus: the numbers of the GPUs.
        key: the configuration key that names them.

    Raises:
        ConfigError: the machine lacks one of these GPUs.
    """
    num_gpus = torch.cuda.device_count()
    missing_gpus = [gpu for gpu in gpus if gpu >= num_gpus]
    if missing_gpus:
        range_text = f", numbered 0 to {num_gpus - 1}" if num_gpus else ""
        raise ConfigError(
            f"{key} needs GPU {missing_gpus[0]}, but torch sees {num_gpus} GPUs on this machine"
            f"{range_text}. Write other numbers, or fewer (learner.ranks, scale.workers)."
        )


def gpus_of_learners(config: RunConfig, devices: Sequence[torch.device]) -> tuple[int, ...]:
    """Return the GPU of each learner; empty for learners on the CPU.

    Args:
        config: the run's configuration.
        devices: devices of the models in the training process.

    Raises:
        ConfigError: the machine has fewer GPUs than learners.
    """
    if all(device.type != CUDA for device in devices):
        return ()
    gpus = learner_gpus(config)
    key = f"learner.gpus={list(gpus)}" if config.learner.gpus else f"learner.ranks={len(gpus)}"
    check_gpus_exist(gpus, key)
    return gpus


def learner_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a learner that sees one GPU.

    Args:
        settings: the run's configuration, as values of JSON.
    """
    return _place_on_device(settings, CUDA)


def worker_settings(settings: Mapping[str, Any], gpus: float) -> dict[str, Any]:
    """Return the configuration of a worker that sees its own GPUs; without GPUs, the run's.

    Replicas of vLLM, if there are any, take one GPU each. The worker's models then stay in CPU
    memory, because the worker only forwards their weights.

    Args:
        settings: the run's configuration, as values of JSON.
        gpus: number of GPUs of the worker; below 1: its share of one GPU.
    """
    if not gpus:
        return dict(settings)
    num_replicas = max(int(gpus), 1)
    uses_replicas = any(_uses_vllm_on_gpu(section) for section in _sections(settings))
    config = _place_on_device(settings, "cpu" if uses_replicas else CUDA)
    for section in _sections(config):
        if _uses_vllm_on_gpu(section):
            section["sampler"].update(replicas=num_replicas, gpus=[*range(num_replicas)])
    return config


def _place_on_device(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    config = dict(settings)
    if config.get("policies"):
        config["policies"] = {name: dict(section) for name, section in config["policies"].items()}
    for section in _sections(config):
        section["model"], section["sampler"] = dict(section["model"]), dict(section["sampler"])
        # "auto" would choose a visible GPU
        is_auto = device == "cpu" and section["model"]["device"] == "auto"
        if is_auto or section["model"]["device"].startswith(CUDA):
            section["model"]["device"] = device
    config["learner"] = {key: value for key, value in config["learner"].items() if key != "gpus"}
    config["scale"] = {**config["scale"], "share_gpus": True}  # the process sees only its own GPUs
    return config


def _sections(settings: Mapping[str, Any]) -> Iterator[Any]:
    yield settings
    yield from settings.get("policies", {}).values()


def _uses_vllm_on_gpu(section: Mapping[str, Any]) -> bool:
    sampler: Mapping[str, Any] = section["sampler"]
    return (sampler["name"], sampler.get("device")) == (VLLM, CUDA)

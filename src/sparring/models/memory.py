"""How much memory a model takes, estimated before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from sparring.errors import ModelError

GIB = 1 << 30
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def count_parameters(config: Any) -> int:
    """Return the number of parameters of a configuration's model, without making it; tied weights count once."""
    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in network.parameters())


def training_bytes(*, trained: int, copies: int, size: int = 4) -> int:
    """Return the bytes that training takes besides the weights, activations left out.

    Per trained parameter of ``size`` bytes: its gradient, AdamW's two moments, and one for each copy that is kept of
    the trained parameters (average, reference, past selves); what is frozen is shared by all copies.
    """
    return trained * size * (3 + copies)


def available_bytes(device: torch.device | None = None) -> int:
    """Return the memory of a GPU, or else of this machine or the container it is in."""
    if device is not None and device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in CGROUP_LIMITS:
        try:
            total = min(total, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return total


def check_memory(
    name: str, config: Any, dtype: torch.dtype, more: Callable[[int], int] | None = None, device: torch.device | None = None
) -> int:
    """Return the bytes that a model and its training take.

    Args:
        name: of the model, for the message.
        config: transformers' configuration.
        dtype: of the weights.
        more: from the number of parameters to the bytes needed besides the weights.
        device: where it is trained; weights pass through the machine's own memory on their way to a GPU.

    Raises:
        ModelError: that is more than the device or the machine has.
    """
    parameters = count_parameters(config)
    weights = parameters * dtype.itemsize
    needed = weights + (more(parameters) if more is not None else 0)
    on_gpu = device is not None and device.type == "cuda"
    limits = [("this machine", weights if on_gpu else needed, available_bytes())]
    if on_gpu:
        limits.insert(0, (str(device), needed, available_bytes(device)))
    for where, bytes_needed, have in limits:
        if bytes_needed > have:
            raise ModelError(
                f"{name} has {parameters / 1e6:,.0f} M parameters and needs about {bytes_needed / GIB:.1f} GiB, activations left out; "
                f"{where} has {have / GIB:.1f} GiB. Train low-rank adapters (model.lora.rank=16), take a smaller model, or "
                "model.dtype=bfloat16."
            )
    return needed

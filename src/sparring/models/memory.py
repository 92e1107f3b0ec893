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


def available_bytes() -> int:
    """Return the memory of this machine, or of the container it is in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in CGROUP_LIMITS:
        try:
            total = min(total, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return total


def check_memory(name: str, config: Any, dtype: torch.dtype, more: Callable[[int], int] | None = None) -> int:
    """Return the bytes that a model and its training take.

    Args:
        name: of the model, for the message.
        config: transformers' configuration.
        dtype: of the weights.
        more: from the number of parameters to the bytes needed besides the weights.

    Raises:
        ModelError: that is more than this machine has.
    """
    parameters = count_parameters(config)
    needed = parameters * dtype.itemsize + (more(parameters) if more is not None else 0)
    if needed > available_bytes():
        raise ModelError(
            f"{name} has {parameters / 1e6:,.0f} M parameters and needs about {needed / GIB:.1f} GiB, activations left out; this machine "
            f"has {available_bytes() / GIB:.1f} GiB. Train low-rank adapters (model.lora.rank=16), take a smaller model, or "
            "model.dtype=bfloat16."
        )
    return needed

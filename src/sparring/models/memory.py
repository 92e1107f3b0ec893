"""Estimates the memory that a model needs, before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sparring.core.errors import ConfigError, ModelError

GIB = 1 << 30
PROGRAM_BYTES = GIB // 2  # memory of Python, torch and their libraries
# padded positions per distinct prefix in attention, at most; the learner often has as many
PADDING = 8
LOGIT_COPIES = 5  # logits / temperature, their log-softmax, a function of it, and two gradients
MEMINFO = Path("/proc/meminfo")
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def count_parameters(config: Any) -> int:
    """Return the number of parameters of a configuration's model; tied weights count once."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in network.parameters())


LEARNING_COPIES = 3  # gradient and AdamW's two moments
FLOAT32_BYTES = 4


def learning_bytes(size: int, *, master: bool = False) -> int:
    """Return the bytes of a trained parameter's gradient and moments.

    Args:
        size: bytes of the parameter.
        master: whether AdamW keeps a float32 copy of 16-bit parameters.
    """
    has_copy = master and size < FLOAT32_BYTES
    return (LEARNING_COPIES + 1) * FLOAT32_BYTES if has_copy else LEARNING_COPIES * size


def training_bytes(*, trained: int, copies: int, size: int = 4, learning: int | None = None) -> int:
    """Return the bytes of training besides the weights and activations.

    Per trained parameter these are its gradient, AdamW's two moments and its copies (EMA,
    reference, snapshots). Frozen weights have no copies.

    Args:
        trained: number of parameters that are trained.
        copies: number of copies of the trained parameters.
        size: bytes of a parameter.
        learning: bytes of a parameter's gradient and moments; None: ``learning_bytes``.
    """
    return trained * ((learning_bytes(size) if learning is None else learning) + size * copies)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """The sizes of a decoder that determine its activations."""

    layers: int
    hidden: int
    inner: int  # width of the feed-forward layers
    attention: int  # width of queries, keys and values together
    vocabulary: int

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """Return the sizes in a transformers configuration; missing sizes get usual proportions."""
        text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
        hidden, heads = int(text_config.hidden_size), int(text_config.num_attention_heads)
        width = int(getattr(text_config, "head_dim", None) or hidden // heads)
        groups = int(getattr(text_config, "num_key_value_heads", None) or heads)
        inner = int(
            getattr(text_config, "intermediate_size", None)
            or getattr(text_config, "n_inner", None)
            or 4 * hidden
        )
        layers, vocabulary = int(text_config.num_hidden_layers), int(text_config.vocab_size)
        return cls(
            layers=layers,
            hidden=hidden,
            inner=inner,
            attention=(heads + 2 * groups) * width,
            vocabulary=vocabulary,
        )


def activation_bytes(
    shape: ModelShape, *, tokens: int, sampled: int, size: int = 4, checkpointing: bool = False
) -> int:
    """Return a rough estimate of the bytes that a forward and backward pass stores.

    Per token and block these are eight vectors of the model's width and four of the width of the
    feed-forward layers; attention stores two vectors of queries, keys and values per padded
    position. With checkpointing, one vector per block is stored, and all vectors of one block.
    Logits are float32.

    Args:
        shape: sizes of the model.
        tokens: number of distinct prefixes of a pass, ``learner.micro_tokens``.
        sampled: number of prefixes before sampled tokens.
        size: bytes of an activation.
        checkpointing: whether blocks are computed again in the backward pass.
    """
    width = 8 * shape.hidden + 4 * shape.inner + 2 * PADDING * shape.attention
    block_bytes = tokens * size * width
    stored_bytes = (
        block_bytes + shape.layers * tokens * size * shape.hidden
        if checkpointing
        else shape.layers * block_bytes
    )
    return stored_bytes + LOGIT_COPIES * sampled * shape.vocabulary * 4


def find_device(name: str) -> torch.device:
    """Return the device of this name; "auto" is a GPU if the machine has one.

    Raises:
        ConfigError: this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"model.device={name!r} is not on this machine ({reason}); write model.device=auto."
        ) from None


def available_bytes(device: torch.device | None = None) -> int:
    """Return the memory of a GPU, or the available memory of this machine or container.

    On Linux, available memory is MemAvailable, which excludes swap; elsewhere it is all memory.
    """
    if device is not None and device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    total = _machine_bytes()
    for limit in CGROUP_LIMITS:
        try:
            total = min(total, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return total


def _machine_bytes() -> int:
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # no Linux, or an old one
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(
    name: str,
    config: Any,
    dtype: torch.dtype,
    extra_bytes: Callable[[int], int] | None = None,
    device: torch.device | None = None,
) -> int:
    """Return the bytes that a model and its training need.

    Args:
        name: name of the model, for the message.
        config: transformers' configuration.
        dtype: type of the weights.
        extra_bytes: bytes besides the weights, as a function of the number of parameters.
        device: device of the training; weights pass through the machine's memory to a GPU.

    Raises:
        ModelError: the device or the machine has less memory.
    """
    num_parameters = count_parameters(config)
    weight_bytes = num_parameters * dtype.itemsize
    needed = weight_bytes + (extra_bytes(num_parameters) if extra_bytes is not None else 0)
    is_on_gpu = device is not None and device.type == "cuda"
    limits = [("this machine", weight_bytes if is_on_gpu else needed, available_bytes())]
    if is_on_gpu:
        limits.insert(0, (str(device), needed, available_bytes(device)))
    for place_name, bytes_needed, available in limits:
        check_fits(name, num_parameters, bytes_needed, available, place_name)
    return needed


def check_fits(
    name: str, parameters: int, needed: int, available: int, place_name: str = "this machine"
) -> None:
    """Refuse a model that needs more memory than is available.

    Raises:
        ModelError: ``needed`` is more than ``available``; the message says what to do.
    """
    if needed > available:
        advice = "use smaller sizes (model.hidden_size, model.layers, model.context)"
        if name != "tiny":
            advice = (
                "train low-rank adapters (model.lora.rank=16), use a smaller model, or "
                "model.dtype=bfloat16"
            )
        raise ModelError(
            f"{name} has {parameters / 1e6:,.0f} M parameters and needs about {needed / GIB:.1f} "
            f"GiB without activations; {place_name} has {available / GIB:.1f} GiB: {advice}."
        )

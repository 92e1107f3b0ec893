"""Weights and an optimiser's state as safetensors, and back; nothing that is not finite is packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch

from sparring.errors import CheckpointError
from sparring.learn.finite import finite
from sparring.models.language_model import LanguageModel


def pack_tensors(model: LanguageModel) -> bytes:
    """Return a model's trained tensors as safetensors.

    Raises:
        DivergedError: one of them is not finite.
    """
    data: bytes = safetensors.torch.save(finite({name: tensor.contiguous() for name, tensor in model.tensors().items()}, "The weight"))
    return data


def pack_optimizer(optimizer: torch.optim.Optimizer) -> bytes:
    """Return an optimiser's state as safetensors, entries named by parameter number and field.

    Raises:
        DivergedError: something of it is not finite.
    """
    state: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    tensors = {f"{index}.{key}": torch.as_tensor(value).contiguous() for index, fields in state.items() for key, value in fields.items()}
    data: bytes = safetensors.torch.save(finite(tensors, "The optimiser's"))
    return data


def unpack_optimizer(optimizer: torch.optim.Optimizer, data: bytes) -> None:
    """Load what ``pack_optimizer`` gave.

    Raises:
        CheckpointError: it is the state of other parameters.
    """
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in safetensors.torch.load(data).items():
        index, _, key = name.partition(".")
        if not index.isdecimal() or int(index) >= len(own) or tensor.shape not in (own[int(index)].shape, ()):
            raise CheckpointError(f"The optimiser's state {name!r} belongs to no parameter of this model.")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

"""Weights and an optimiser's state as files of safetensors, and back.

Nothing that is not finite is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from sparring.core.errors import CheckpointError
from sparring.learn.finite import finite
from sparring.models.language_model import LanguageModel

# what reading a damaged file may raise
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    OverflowError,
    safetensors.SafetensorError,
)


def save_weights(model: LanguageModel, path: Path) -> None:
    """Write a model's trained tensors.

    Raises:
        DivergedError: one of them is not finite.
        OSError: the disk is full or not writable.
    """
    _save(
        finite(
            {name: tensor.contiguous() for name, tensor in model.tensors().items()}, "The weight"
        ),
        path,
    )


def save_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Write an optimiser's state, entries named by parameter number and field.

    Raises:
        DivergedError: something of it is not finite.
        OSError: the disk is full or not writable.
    """
    state: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    tensors = {
        f"{index}.{key}": torch.as_tensor(value).contiguous()
        for index, fields in state.items()
        for key, value in fields.items()
    }
    _save(finite(tensors, "The optimiser's"), path)


def _save(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors from where they lie: nothing of them is copied in memory."""
    path.touch()
    mode = (
        path.stat().st_mode
    )  # what the user's umask gives; the library would make a file that its owner alone may read
    try:
        safetensors.torch.save_file(dict(tensors), path)
        path.chmod(mode)
    except safetensors.SafetensorError as error:
        found = re.search(r"os error ([0-9]+)", str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None


def load_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Load what ``save_optimizer`` wrote.

    Raises:
        CheckpointError: it is the state of other parameters.
    """
    check_optimizer(optimizer, path)
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in safetensors.torch.load_file(path).items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def updated(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return what an optimiser updates, in order: weights, or copies of them (``masters.py``)."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def updates_seen(optimizer: torch.optim.Optimizer) -> int:
    """Return how many updates an optimiser has made since its state was empty.

    Args:
        optimizer: AdamW or one of its kind; checkpoints hold its state.
    """
    steps = (state["step"] for state in optimizer.state.values() if "step" in state)
    return int(next(steps, 0))


def check_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Check that ``load_optimizer`` would load a file, without doing it.

    Raises:
        CheckpointError: it is the state of other parameters.
    """
    own = updated(optimizer)
    with safetensors.safe_open(path, framework="pt") as file:
        names = file.keys()
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    for name, shape in shapes.items():
        index = name.partition(".")[0]
        known = index.isdecimal() and int(index) < len(own)
        if not known or shape not in (tuple(own[int(index)].shape), ()):
            raise CheckpointError(
                f"The optimiser's state {name!r} belongs to no parameter of this model."
            )


def load_weights(model: LanguageModel, path: Path, version: int) -> None:
    """Load what ``save_weights`` wrote, and how many updates made it.

    Raises:
        CheckpointError: the version is no count.
        ModelError: the file is of another model.
    """
    if type(version) is not int or not 0 <= version < 1 << 53:
        raise CheckpointError(
            f"{path} is said to hold version {version!r}, which is no count of updates."
        )
    model.load_tensors(safetensors.torch.load_file(path))
    model.version = version


def fingerprint(model: LanguageModel) -> list[int]:
    """Return a number per trained tensor: the sum of its bits, read as whole numbers.

    Models whose weights differ have others, but for chance. It does not depend on the order of the
    sum, and is quick.

    Args:
        model: the model.
    """
    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [
        int(tensor.detach().contiguous().view(kinds[tensor.element_size()]).sum(dtype=torch.int64))
        for tensor in model.tensors().values()
    ]

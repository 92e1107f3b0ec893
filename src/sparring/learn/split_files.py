"""Parts of split weights and of their optimiser's state, from files of the whole and to them.

Checkpoints do not know of learners that hold parts. Whole tensors come together one at a time, and
learner 0 writes them as it would alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from sparring.learn.learner import Learner
from sparring.learn.masters import MASTER, SplitMasterAdamW
from sparring.learn.split_adamw import SplitAdamW
from sparring.learn.weights import updated
from sparring.models.language_model import LanguageModel

SPLIT = ("exp_avg", "exp_avg_sq", MASTER)  # of the optimiser, by rows as its parameters are


def split_optimizer(learner: Learner, rank: int) -> torch.optim.Optimizer:
    """Return an optimiser of one's parts of the weights."""
    kind = SplitMasterAdamW if learner.config.master_weights else SplitAdamW
    return learner.new_optimizer(partial(kind, rank=rank))


def take_weights(model: LanguageModel, path: Path, rank: int, ranks: int) -> None:
    """Take one's own part of weights from a file of whole ones."""
    with safe_open(path, framework="pt") as file:
        for name, tensor in model.tensors().items():
            _take(tensor, file.get_slice(name), rank, ranks)


def take_moments(learner: Learner, path: Path, rank: int, ranks: int) -> None:
    """Take one's own part of an optimiser's state from a file of the whole one."""
    learner.optimizer = split_optimizer(learner, rank)
    own = updated(learner.optimizer)
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        for name in names:
            index, _, key = name.partition(".")
            parameter = own[int(index)]
            state = learner.optimizer.state[parameter]
            if key not in SPLIT:
                state[key] = file.get_tensor(name)
                continue
            state[key] = torch.zeros_like(parameter, requires_grad=False)
            _take(state[key], file.get_slice(name), rank, ranks)


@torch.no_grad()
def _take(tensor: Any, whole: Any, rank: int, ranks: int) -> None:
    """Copy one's own rows of a whole tensor into a part of it."""
    rows = whole.get_shape()[0]
    each = -(-rows // ranks)
    begin, end = min(rank * each, rows), min((rank + 1) * each, rows)
    if begin < end:
        local(tensor).copy_(whole[begin:end])


def local(tensor: Any) -> Tensor:
    """Return one's own part of a tensor, in the same memory."""
    part: Tensor = tensor.to_local()
    return part.detach()


def whole_weights(model: LanguageModel) -> dict[str, Callable[[], Tensor]]:
    """Return what brings each weight together; every learner has to call it, in one order."""
    parts: dict[str, Any] = {**model.tensors()}
    return {name: part.full_tensor for name, part in parts.items()}


def whole_moments(learner: Learner) -> dict[str, Callable[[], Tensor]]:
    """Return what brings each part of the optimiser's state together, named as in its file."""
    found: dict[str, Callable[[], Tensor]] = {}
    for index, parameter in enumerate(updated(learner.optimizer)):
        for key, value in learner.optimizer.state.get(parameter, {}).items():
            found[f"{index}.{key}"] = value.full_tensor if key in SPLIT else value.clone
    return found

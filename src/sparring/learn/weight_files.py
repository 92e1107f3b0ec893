"""Reads and writes weights and an optimiser's state (safetensors), and copies policies (snapshots).

Numbers that are not finite are never written. Purposes of a snapshot:
    past        the policy at an earlier step: a member of the league
    average     the EMA weights, which are evaluated and exported
    reference   the policy before the first step, for losses and columns
    process     the reward model, which has its own optimiser
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch

from sparring.config import RunConfig
from sparring.config.plugins.registry import required_services
from sparring.core.errors import CheckpointError, ModelError
from sparring.core.files import link_or_copy
from sparring.learn.gradient_step import require_finite
from sparring.models.language_model import LanguageModel

# errors that reading a damaged file may raise
READ_ERRORS = (
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
        DivergedError: a tensor is not finite.
        OSError: the disk is full or not writable.
    """
    tensors = {name: tensor.contiguous() for name, tensor in model.tensors().items()}
    _save(require_finite(tensors, "The weight"), path)


def save_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Write an optimiser's state; entries are named by parameter number and field.

    Raises:
        DivergedError: a value is not finite.
        OSError: the disk is full or not writable.
    """
    state: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    tensors = {
        f"{index}.{key}": torch.as_tensor(value).contiguous()
        for index, fields in state.items()
        for key, value in fields.items()
    }
    _save(require_finite(tensors, "The optimiser's"), path)


def _save(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors without a copy in memory."""
    path.touch()
    mode = path.stat().st_mode  # the user's umask; safetensors lets only the owner read the file
    try:
        safetensors.torch.save_file(dict(tensors), path)
        path.chmod(mode)
    except safetensors.SafetensorError as error:
        match = re.search(r"os error ([0-9]+)", str(error))
        if match is None:
            raise
        raise OSError(int(match[1]), os.strerror(int(match[1])), str(path)) from None


def load_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Load a state that ``save_optimizer`` wrote.

    Raises:
        CheckpointError: the state belongs to other parameters.
    """
    check_optimizer(optimizer, path)
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in safetensors.torch.load_file(path).items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return an optimiser's parameters in order: weights, or their ``MasterWeights`` copies."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def num_updates(optimizer: torch.optim.Optimizer) -> int:
    """Return the number of updates that an optimiser has made since its state was empty."""
    steps = (state["step"] for state in optimizer.state.values() if "step" in state)
    return int(next(steps, 0))


def check_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Check that ``load_optimizer`` can load a file, without loading it.

    Raises:
        CheckpointError: the state belongs to other parameters.
    """
    parameters = parameters_of(optimizer)
    with safetensors.safe_open(path, framework="pt") as file:
        names = file.keys()
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    for name, shape in shapes.items():
        index = name.partition(".")[0]
        is_parameter = index.isdecimal() and int(index) < len(parameters)
        if not is_parameter or shape not in (tuple(parameters[int(index)].shape), ()):
            raise CheckpointError(
                f"The optimiser's state {name!r} belongs to no parameter of this model."
            )


def load_weights(model: LanguageModel, path: Path, version: int) -> None:
    """Load weights that ``save_weights`` wrote, and set the model's version.

    Raises:
        CheckpointError: the version is not an integer from 0 on.
        ModelError: the file is of another model.
    """
    if type(version) is not int or not 0 <= version < 1 << 53:
        raise CheckpointError(
            f"The version of {path} is {version!r}, which is not a count of updates."
        )
    model.load_tensors(safetensors.torch.load_file(path))
    model.version = version


def fingerprint(model: LanguageModel) -> list[int]:
    """Return a number per trained tensor: the sum of its elements' bits, read as integers.

    Models with different weights almost surely have different numbers. The numbers do not depend
    on the order of the sum.
    """
    types = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [
        int(tensor.detach().contiguous().view(types[tensor.element_size()]).sum(dtype=torch.int64))
        for tensor in model.tensors().values()
    ]


Purpose = Literal["past", "average", "reference", "process"]
EMA_WARM_UP_UPDATES = 4  # after this many updates the decay of the EMA is 1/2
# copies of the trained weights in memory: a trained model also has gradients and AdamW's moments
COPIES: dict[Purpose, int] = {"past": 1, "average": 1, "reference": 1, "process": 4}


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A copy of a policy's trained weights; frozen weights are shared with the policy.

    Args:
        purpose: what the copy is for.
        model: the copy.
    """

    purpose: Purpose
    model: LanguageModel

    @classmethod
    def of(cls, policy: LanguageModel, purpose: Purpose) -> Snapshot:
        """Copy a policy's present weights."""
        return cls(purpose=purpose, model=policy.clone())

    @torch.no_grad()
    def follow(self, policy: LanguageModel, decay: float = 0.0) -> None:
        """Move towards a policy's weights: w <- decay w + (1 - decay) w_policy.

        Args:
            policy: a model with weights of the same shapes.
            decay: share of the snapshot's weights, in [0, 1); 0 copies the policy's weights.
        """
        if not decay:
            self.model.load_tensors(policy.tensors())
            return
        for weight, target in zip(self.model.parameters(), policy.parameters(), strict=True):
            weight.lerp_(target, 1.0 - decay)

    def save(self, path: Path, earlier: Path | None = None) -> None:
        """Write the weights.

        Args:
            path: the file.
            earlier: an earlier file with the same weights, to link; None: write a new file.

        Raises:
            DivergedError: a weight is not finite.
            OSError: the disk is full or not writable.
        """
        if earlier is None or not link_or_copy(earlier, path):
            save_weights(self.model, path)

    def restore(self, path: Path, version: int) -> None:
        """Load weights that ``save`` wrote, and set the model's version.

        A reference without a file, as in older checkpoints, keeps the run's first weights.

        Raises:
            CheckpointError: the version is not a count.
            ModelError: the file is of another model.
        """
        if self.purpose != "reference" or path.exists():
            load_weights(self.model, path, version)


def ema_decay(decay: float, updates: int) -> float:
    """Return the decay of the EMA after n updates: min(decay, n / (n + 4)).

    With a constant decay of 0.998, the random first weights still have a share of 62 % in the EMA
    after 240 updates; with this schedule they have about 24 / n^4. The constant 4 was chosen by 48
    NashConvs along eight runs of kuhn-tiny and leduc-tiny (60 and 450 steps). Geometric means are
    0.207 with 4, 0.218 with 9, 0.239 with 19, 0.218 with a debiased average, 0.279 without a
    warm-up, and 0.301 for the last weights.

    Args:
        decay: the configured decay, ``learner.average``.
        updates: number n of updates, the current one included; 1 or more.
    """
    return min(decay, updates / (updates + EMA_WARM_UP_UPDATES))


def update_reference(snapshots: Iterable[Snapshot], policy: LanguageModel) -> None:
    """Set the reference among a policy's snapshots, if any, to the policy's current weights."""
    for snapshot in snapshots:
        if snapshot.purpose == "reference":
            snapshot.follow(policy)


def snapshots_to_save(snapshots: Iterable[Snapshot], config: RunConfig) -> list[Snapshot]:
    """Return the snapshots that a checkpoint must hold: no other data can restore them.

    These are the EMA weights, and the reference of a run with a warm-up.

    Args:
        snapshots: snapshots of the learner.
        config: configuration of the run.
    """
    has_warmup = config.warmup.updates > 0
    return [snapshot for snapshot in snapshots if has_warmup or snapshot.purpose != "reference"]


def planned_snapshots(config: RunConfig) -> dict[Purpose, int]:
    """Return the largest number of snapshots of each purpose in a run."""
    credit = config.credit.bind("credit")
    needs = frozenset().union(*(loss.bind("losses").needs for loss in config.losses))
    has_reference = "reference" in required_services(credit) or "reference_logprobs" in needs
    return {
        "past": config.league.keep if config.league.every else 0,
        "average": int(config.learner.average > 0),
        "reference": int(has_reference),
        "process": int("process" in required_services(credit)),
    }


def planned_copies(config: RunConfig) -> int:
    """Return the largest number of copies of the trained weights in snapshots."""
    return sum(COPIES[purpose] * count for purpose, count in planned_snapshots(config).items())


def load_member(name: str, like: LanguageModel, path: Path, updates: int) -> Snapshot:
    """Load a member of a league from its file.

    Args:
        name: name of the member.
        like: a model of the same shape.
        path: file of the member.
        updates: number of updates of the member's weights.

    Raises:
        CheckpointError: the file cannot be read.
        ModelError: the file is of another model.
    """
    snapshot = Snapshot.of(like, "past")
    problem = f"The league's member {name} cannot be loaded from {path}"
    try:
        snapshot.restore(path, updates)
    except ModelError as error:
        raise ModelError(f"{problem}: {error}") from error
    except READ_ERRORS as error:
        raise CheckpointError(f"{problem}: {error}") from error
    return snapshot

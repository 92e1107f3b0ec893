"""Weights and an optimiser's state as files of safetensors, and frozen copies of a policy.

Nothing that is not finite is written. Purposes of a frozen copy:
    past        the policy as it was at a step: a member of the league
    average     the moving average of its weights, which is evaluated and exported
    reference   the policy before the first step, which losses and columns compare with
    process     the reward model, which has an optimiser of its own
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
from sparring.learn.gradient_step import finite
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


Purpose = Literal["past", "average", "reference", "process"]
# how often the trained weights are held for it: a model that is trained has their gradient and
# AdamW's two moments as well
WARM_UP = 4  # updates after which the decay of an average is a half
COPIES: dict[Purpose, int] = {"past": 1, "average": 1, "reference": 1, "process": 4}


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A copy of a policy's weights; what is frozen is shared with the policy.

    Args:
        purpose: what it is kept for.
        model: the copy.
    """

    purpose: Purpose
    model: LanguageModel

    @classmethod
    def of(cls, policy: LanguageModel, purpose: Purpose) -> Snapshot:
        """Return a copy of a policy as it is now."""
        return cls(purpose=purpose, model=policy.clone())

    @torch.no_grad()
    def follow(self, policy: LanguageModel, decay: float = 0.0) -> None:
        """Move towards a policy's weights: w <- decay w + (1 - decay) w_policy.

        Args:
            policy: a model of the same weights.
            decay: share of the own weights that stays, in [0, 1); 0 takes the policy's as they are.
        """
        if not decay:
            self.model.load_tensors(policy.tensors())
            return
        for own, new in zip(self.model.parameters(), policy.parameters(), strict=True):
            own.lerp_(new, 1.0 - decay)

    def save(self, path: Path, earlier: Path | None = None) -> None:
        """Write the weights.

        Args:
            path: the file.
            earlier: a file that holds just these weights, if there is one: it is linked.

        Raises:
            DivergedError: one of them is not finite.
            OSError: the disk is full or not writable.
        """
        if earlier is None or not link_or_copy(earlier, path):
            save_weights(self.model, path)

    def restore(self, path: Path, version: int) -> None:
        """Take back what ``save`` wrote, and how many updates made it.

        A reference that an older checkpoint lacks stays what the run was made from.

        Raises:
            CheckpointError: the version is no count.
            ModelError: the file is of another model.
        """
        if self.purpose != "reference" or path.exists():
            load_weights(self.model, path, version)


def warmed_up(decay: float, updates: int) -> float:
    """Return the decay of an average after so many updates: min(decay, n / (n + 4)).

    With a decay that is the same from the first update on, 0.998 leaves 62 % of the random start in
    the average of 240 updates. With this one the start is in it with a weight of about 24 / n^4.
    Measured were 48 NashConvs along eight runs of kuhn-tiny and leduc-tiny, of 60 and 450 steps;
    their geometric means are 0.207 with 4, 0.218 with 9, 0.239 with 19, 0.218 of a debiased
    average, 0.279 without a warm-up, and 0.301 of the live weights.

    Args:
        decay: that the configuration asks for, ``learner.average``.
        updates: that the optimiser has made, the present one included; 1 or more.
    """
    return min(decay, updates / (updates + WARM_UP))


def refer(held: Iterable[Snapshot], policy: LanguageModel) -> None:
    """Take a policy's weights of now as its reference, if it holds one.

    Args:
        held: its snapshots.
        policy: whose they are.
    """
    for one in held:
        if one.purpose == "reference":
            one.follow(policy)


def lasting(held: Iterable[Snapshot], config: RunConfig) -> list[Snapshot]:
    """Return the snapshots of a learner that cannot be made anew from the configuration.

    Those are the average, and the reference where a warm-up comes before it is taken.

    Args:
        held: all of them.
        config: of the run.
    """
    warmed = config.warmup.updates > 0
    return [one for one in held if warmed or one.purpose != "reference"]


def planned(config: RunConfig) -> dict[Purpose, int]:
    """Return how many snapshots of each purpose a run holds at most."""
    credit = config.credit.bind("credit")
    needs = frozenset().union(*(loss.bind("losses").needs for loss in config.losses))
    reference = "reference" in required_services(credit) or "reference_logprobs" in needs
    return {
        "past": config.league.keep if config.league.every else 0,
        "average": int(config.learner.average > 0),
        "reference": int(reference),
        "process": int("process" in required_services(credit)),
    }


def planned_copies(config: RunConfig) -> int:
    """Return how often the trained weights are held for snapshots at most."""
    return sum(COPIES[purpose] * count for purpose, count in planned(config).items())


def member_of(name: str, like: LanguageModel, path: Path, updates: int) -> Snapshot:
    """Return a snapshot of a league as its file has it.

    Args:
        name: of the member.
        like: a model of the same shape.
        path: its file.
        updates: that its weights have seen.

    Raises:
        CheckpointError: the file cannot be read.
        ModelError: it is of another model.
    """
    found = Snapshot.of(like, "past")
    where = f"The league's member {name} cannot be taken back from {path}"
    try:
        found.restore(path, updates)
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from error
    except UNREADABLE as error:
        raise CheckpointError(f"{where}: {error}") from error
    return found

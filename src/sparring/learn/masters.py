"""AdamW in float32 over weights of 16 bits: master weights.

A bfloat16 has 8 bits of precision. An update of less than 1/512 of a weight is rounded away, and at
usual learning rates nearly all are. So the optimiser keeps a copy of each such weight in float32,
and its moments too. It updates the copy, and the weight is the copy rounded.

What has changed a weight otherwise since, such as a checkpoint or a league's restart, wins: where
the copy does not round to the weight it is the weight again.

AdamW over parts of weights, with the bits of AdamW over whole ones.

Torch's fused kernel takes so many elements at once, and computes the last few of a tensor, which
are fewer, in another way: their last bits differ. Where a tensor is cut, other elements are the
last. So elements that are in the middle of a whole tensor are filled up to a multiple here, and
those that are its last are computed by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

PROBE = 63  # elements of a tensor whose last few are looked for
TRIALS = 500


@lru_cache(maxsize=1)
def lanes() -> int:
    """Return how many elements of float32 the kernel takes at once on this machine.

    1 where the last few of a tensor have no bits of their own.
    """
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(3, TRIALS, PROBE, generator=draw).unbind()]
    given.append(tuple(torch.cat([one, one.new_zeros(TRIALS, 1)], 1) for one in given[0]))
    found = []
    for weights, gradients, means in given:
        squares = means.square()
        four = [list(one.clone()) for one in (weights, gradients, means, squares)]
        _step(four[0], four[1], four[2], four[3], [torch.zeros(())] * TRIALS, lr=0.1)
        found.append(torch.stack([*four[0], *four[3]])[:, :PROBE])
    other = (found[0] != found[1]).any(0).nonzero()
    sizes = (
        size for size in (2, 4, 8, 16, 32) if len(other) and PROBE - PROBE % size <= other.min()
    )
    return next(sizes, 1)


def filled(x: Tensor, more: int) -> Tensor:
    """Return a copy with so many zeros after it."""
    return torch.cat([x, x.new_zeros(more)])


def _step(
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    **options: Any,
) -> None:
    """Update tensors by torch's kernel; of the steps it gets copies."""
    usual = {"beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8, **options}
    counted = [step.to(own.device, copy=True) for step, own in zip(steps, weights, strict=True)]
    none: list[Tensor] = []
    how: Any = {"fused": True, "amsgrad": False, "maximize": False, **usual}
    adamw(weights, gradients, means, squares, none, counted, **how)


class Rows(NamedTuple):
    """One's own elements of a weight, of its gradient and of its two moments, in order."""

    four: tuple[Tensor, Tensor, Tensor, Tensor]
    begin: int  # the place of the first in the whole weight
    whole: int  # elements of that
    step: Tensor  # updates that it has seen

    def pieces(self) -> Iterator[tuple[tuple[Tensor, ...], int]]:
        """Yield pieces that the kernel computes as in the whole weight, and how many to fill up."""
        weight = self.four[0]
        usual = weight.dtype == torch.float32 and weight.device.type == "cpu"
        count, size = len(weight), lanes() if usual else 1  # a GPU computes each by itself
        middle = min(max(self.whole // size * size - self.begin, 0), count)
        for first, last in ((0, middle), (middle, count)):
            if first < last:
                lacking = -(last - first) % size if last == middle else 0
                yield tuple(one[first:last] for one in self.four), lacking


def update(rows: Iterable[Rows], **options: Any) -> None:
    """Update weights and moments; of the steps nothing is changed.

    Args:
        rows: of all weights.
        options: of AdamW.
    """
    pieces = [(own, more, one.step) for one in rows for own, more in one.pieces()]
    if not pieces:
        return
    sent = [[filled(one, more) if more else one for one in own] for own, more, _ in pieces]
    weights, gradients, means, squares = map(list, zip(*sent, strict=True))
    _step(weights, gradients, means, squares, [step for *_, step in pieces], **options)
    for (own, more, _), given in zip(pieces, sent, strict=True):
        if more:
            for one, new in zip(own, given, strict=True):
                one.copy_(new[: len(one)])


class SplitAdamW(torch.optim.AdamW):
    """AdamW over parameters that are split by rows; see the top of this file.

    Args:
        parameters: split among learners.
        rank: of this learner.
        options: of AdamW.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], rank: int, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._rank = rank

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update one's own rows of the weights."""
        for group in self.param_groups:
            alive = [parameter for parameter in group["params"] if parameter.grad is not None]
            names = ("lr", "weight_decay", "eps")
            beta1, beta2 = group["betas"]
            options = {name: group[name] for name in names} | {"beta1": beta1, "beta2": beta2}
            update([self._rows(parameter) for parameter in alive], **options)
            for parameter in alive:
                self.state[parameter]["step"] += 1

    def _rows(self, parameter: Any) -> Rows:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.zeros_like(parameter, requires_grad=False)
        split = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
        weight, gradient, mean, square = (one.to_local().detach().view(-1) for one in split)
        rows, each = parameter.shape[0], -(-parameter.shape[0] // parameter.device_mesh.size())
        begin = min(self._rank * each, rows) * (parameter.numel() // max(rows, 1))
        return Rows((weight, gradient, mean, square), begin, parameter.numel(), state["step"])


MASTER = "master"  # the copy, in the optimiser's state


def copied(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """Return room for a parameter's copy in float32, or itself where it has no fewer bits.

    Nothing is written there before the first update: a process that makes none, as where others
    hold the optimiser's state, takes no memory for it.
    """
    if parameter.dtype.itemsize >= torch.float32.itemsize:
        return parameter
    return torch.nn.Parameter(torch.empty_like(parameter, dtype=torch.float32))


class MasterWeights:
    """Lets an optimiser update copies in float32, as a class before that of the optimiser.

    Args:
        parameters: to update.
        options: of the optimiser.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], **options: Any) -> None:
        both = [(parameter, copied(parameter)) for parameter in parameters]
        self._copies = [(own, copy) for own, copy in both if own is not copy]
        optimizer: Any = super()
        optimizer.__init__([copy for _, copy in both], **options)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        optimizer: Any = super()
        optimizer.zero_grad(set_to_none=set_to_none)
        for own, _ in self._copies:
            own.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update the copies by the gradients of the weights, and then the weights."""
        optimizer: Any = super()
        state: Any = self.state  # type: ignore[attr-defined]
        for own, copy in self._copies:
            _agree(copy, own, state.get(copy, {}).get(MASTER))
            copy.grad = None if own.grad is None else own.grad.float()
            own.grad = None
        optimizer.step()
        for own, copy in self._copies:
            if copy.grad is not None:
                copy.grad = None
                own.copy_(copy)
                state[copy][MASTER] = copy.detach()


def _agree(copy: Tensor, own: Tensor, kept: Tensor | None) -> None:
    """Make a copy what was kept of it, and the weight where that does not round to it."""
    if kept is None:
        copy.copy_(own)
        return
    copy.copy_(torch.where(kept.to(own.dtype) == own, kept, own.float()))


class MasterAdamW(MasterWeights, torch.optim.AdamW):  # type: ignore[misc]
    """AdamW over copies of weights."""


class SplitMasterAdamW(MasterWeights, SplitAdamW):  # type: ignore[misc]
    """The same where weights are split among learners."""

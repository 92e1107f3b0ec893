"""AdamW in float32 over weights of 16 bits: master weights.

A bfloat16 has 8 bits of precision. An update of less than 1/512 of a weight is rounded away, and at
usual learning rates nearly all are. So the optimiser keeps a copy of each such weight in float32,
and its moments too. It updates the copy, and the weight is the copy rounded.

What has changed a weight otherwise since, such as a checkpoint or a league's restart, wins: where
the copy does not round to the weight it is the weight again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparring.learn.split_adamw import SplitAdamW

MASTER = "master"  # the copy, in the optimiser's state


def copied(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """Return room for a parameter's copy in float32, or itself where it has no fewer bits.

    Nothing is written there before the first update: a process that makes none, as where others
    hold the optimiser's state, takes no memory for it.
    """
    if parameter.dtype.itemsize >= torch.float32.itemsize:
        return parameter
    return torch.nn.Parameter(torch.empty_like(parameter, dtype=torch.float32))


class Masters:
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


class MasterAdamW(Masters, torch.optim.AdamW):  # type: ignore[misc]
    """AdamW over copies of weights."""


class SplitMasterAdamW(Masters, SplitAdamW):  # type: ignore[misc]
    """The same where weights are split among learners."""

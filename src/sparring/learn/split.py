"""Weights that are split among learners, with torch's ``fully_shard`` (FSDP2).

Each learner keeps a part of every parameter, of its gradient and of the optimiser's moments: rows
of its first axis. A block's weights are whole while the block computes, forwards and backwards, and
its gradients are added among the learners and split as soon as they are there. What is in no block,
such as embeddings, is whole during a pass. So all learners make the same passes in the same order:
one with fewer than others makes up for it with passes that count nothing.

Gradients are added along the tree of ``tree.py``. Learner r of R computes the leaves r, R + r,
2 R + r ..., so that the lowest levels of the tree are sums over the learners, and those above are
sums of parts. With ``learner.gradient_sync: leaf`` each learner adds up a leaf's passes first, as
one learner does, so the bits are those of one. With ``pass`` every pass is added among the
learners at once: no learner holds a whole gradient, and a leaf of several passes is added up in
another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from sparring.learn.learner import Learner
from sparring.learn.pack import Pack
from sparring.learn.slices import PADDED, chunks
from sparring.learn.split_files import local, split_optimizer
from sparring.learn.tree import GradientTree, Together, leaves
from sparring.models.architectures import architecture
from sparring.models.language_model import LanguageModel
from sparring.models.lean import LeanForward
from sparring.types import IntArray

Result = TypeVar("Result")


class AlongTheTree:
    """Gives each learner the sum of its rows over all learners, added in pairs in float32.

    Torch calls it in place of its own; see ``FSDPModule.set_custom_reduce_scatter``.
    """

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return memory for torch to send from or to receive in."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Send each learner its rows, and add one's own as they come from all."""
        received, distributed = torch.empty_like(input_tensor), torch.distributed
        exchange: Any = distributed.all_to_all_single
        exchange(received, input_tensor, group=group)
        sums = [rows.float() for rows in received.view(-1, *output_tensor.shape)]
        while len(sums) > 1:
            sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
        output_tensor.copy_(sums[0])


class Split(nn.Module):
    """A model whose weights are split.

    Args:
        model: whose network and value head are split; it computes with them as before.
        mesh: the learners.
    """

    def __init__(self, model: LanguageModel, mesh: Any) -> None:
        super().__init__()
        self.network, self.value_head = model.network, model.value_head
        self._computes = False
        parts = [*_blocks(model), *([] if self.value_head is None else [self.value_head]), self]
        for part in parts:
            whole: Any = fully_shard(part, mesh=mesh)
            whole.set_gradient_divide_factor(1.0)  # gradients are shares of the minibatch's: a sum
            whole.set_force_sum_reduction_for_comms(True)
            whole.set_custom_reduce_scatter(AlongTheTree())
        model.around = self.around
        model.renew()

    def around(self, compute: Callable[[], Result]) -> Result:
        """Return what a call returns that computes with the weights."""
        if self._computes:
            return compute()
        self._computes = True
        try:
            found: Result = self(compute)
        finally:
            self._computes = False
        if not torch.is_grad_enabled():  # else the backward pass does it
            again: Any = self
            again.reshard()
        return found

    def forward(self, compute: Callable[[], Result]) -> Result:
        """Do what is asked for; torch makes the weights whole before it."""
        return compute()


def _blocks(model: LanguageModel) -> list[nn.Module]:
    """Return the modules of a network's blocks, through which its forward pass goes from now on."""
    forward = model.forward
    lists = [list(one) for one in model.base.modules() if isinstance(one, nn.ModuleList)]
    if not isinstance(forward, LeanForward):
        return max(lists, key=len, default=[])  # which it calls itself
    blocks = next(one for one in lists if len(one) == forward.parts.layers)
    parts = architecture(model.base, held=False)
    assert parts is not None, "the forward pass is known"
    forward.parts, forward.modules = parts, blocks
    for block in blocks:
        block.forward = _asked
    return blocks


def _asked(run: Callable[..., Tensor], x: Tensor, layer: int) -> Tensor:
    """Run a block as it is asked for, in place of its network's own way."""
    return run(x, layer)


class Passes(GradientTree):
    """Adds the gradients of leaves where weights are split: those of all learners at one place are
    added by ``AlongTheTree``, and the sums here.

    Args:
        parameters: the parts of the weights.
        count: number of leaves.
        others: the learners.
        size: ``micro_tokens`` and ``padded`` of a pass.
        sync: is told before each pass whether its gradients are to be added among the learners,
            with all that were not. None: those of every pass are.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        count: int,
        others: Together,
        size: tuple[int, int],
        sync: Callable[[bool], None] | None = None,
    ) -> None:
        super().__init__(parameters, count, others)
        self._learners, self._size, self._sync = others, size, sync
        self._beside: list[IntArray] = []

    def leaves(self, data: Pack, chosen: IntArray) -> Iterator[IntArray]:
        """Yield one's own leaves, in order."""
        self._sums.clear()
        found, ranks = leaves(data, chosen, self.count), self._learners.ranks
        for begin in range(0, self.count, ranks):
            self._beside = found[begin : begin + ranks]
            yield self._beside[self._learners.rank]

    def mine(self, data: Pack, chosen: IntArray) -> IntArray:
        """Return all of the chosen sequences to learner 0, and none to others.

        One learner learns from them in one piece: their gradients have the same bits so.
        """
        self._beside = [chosen]
        return chosen if self._learners.rank == 0 else chosen[:0]

    def passes(self, data: Pack) -> int:
        """Return the most passes that any learner's last leaf takes."""
        tokens, padded = self._size
        rows = (np.unique(data.distinct[leaf]) for leaf in self._beside)
        return max(sum(1 for _ in chunks(data, own, tokens, padded=padded)) for own in rows)

    def passing(self, *, last: bool) -> None:
        """Add gradients among the learners after a leaf's last pass alone, if that is asked for."""
        if self._sync is not None:
            self._sync(last)

    def finish(self) -> None:
        """Give the parts of the parameters their gradients of the minibatch."""
        ((_, total),) = self._sums
        self._sums.clear()
        own = [local(parameter) for parameter in self.parameters]
        *parts, alive = torch.split(total, [*(part.numel() for part in own), len(own)])
        for parameter, part, times in zip(self.parameters, parts, alive.tolist(), strict=True):
            parameter.grad = None
            if times:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
                rows = local(parameter.grad)
                rows.copy_(part.view_as(rows))

    def _taken(self) -> Tensor:
        """Return the gradients' parts as one vector in float32, as ``GradientTree`` does."""
        found = [
            torch.zeros(own.numel(), device=own.device)
            if parameter.grad is None
            else local(parameter.grad).reshape(-1).float()
            for parameter in self.parameters
            for own in [local(parameter)]
        ]
        alive = [float(parameter.grad is not None) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*found, torch.tensor(alive, device=found[0].device)])


def split_learner(
    learner: Learner, mesh: Any, others: Together, *, each_pass: bool = False
) -> None:
    """Split what a learner holds among several, which hold the same.

    Args:
        learner: before its first update.
        mesh: the learners, for torch.
        others: the learners, for us.
        each_pass: add gradients among them after each pass, and not after each leaf.
    """
    copies = [one.model for one in learner.snapshots]
    trained: Any = Split(learner.model, mesh)
    for model in copies:
        Split(model, mesh)
    learner.optimizer = split_optimizer(learner, others.rank)
    padded = PADDED if learner.model.forward.shares_prefixes else 1
    learner.tree = Passes(
        learner.model.parameters(),
        learner.config.leaves,
        others,
        (learner.micro_tokens, padded),
        None if each_pass else trained.set_requires_gradient_sync,
    )

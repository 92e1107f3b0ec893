"""The gradient of a minibatch as a sum over leaves, in an order that the configuration decides.

Floating-point sums depend on their order. So a minibatch is cut into ``learner.leaves`` leaves,
runs of distinct sequences, and their gradients are added along a fixed binary tree:

    g = ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7]))

Whoever computes a leaf, the sum has the same bits. With one leaf nothing is cut and nothing added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sparring.core.records import IntArray
from sparring.learn.means import Means
from sparring.learn.pack import Pack
from sparring.models.prefixes import shared_lengths


class Together(Protocol):
    """The learners that share every minibatch, as one of them sees them."""

    @property
    def rank(self) -> int:
        """Which of them this is."""
        ...

    @property
    def ranks(self) -> int:
        """How many there are, a power of 2."""
        ...

    def added(self, own: Tensor) -> Tensor:
        """Return the sum over the leaves of all, along the tree, of those over each one's own."""
        ...

    def counted(self, own: Means) -> None:
        """Put the parts of the others among one's own, in the order of the leaves."""
        ...


def leaves(data: Pack, chosen: IntArray, count: int) -> list[IntArray]:
    """Return the chosen sequences in leaves of about as many distinct prefixes each.

    Sequences that are equal are in one leaf, and neighbours share prefixes. Where there are fewer
    distinct sequences than leaves some are empty.

    Args:
        data: the pack.
        chosen: int64, sequences of it.
        count: number of leaves.
    """
    if count == 1:
        return [chosen]
    rows = np.unique(data.distinct[chosen]).tolist()
    order = sorted(rows, key=data.sequences.__getitem__)
    ids = [data.sequences[row] for row in order]
    new = np.array([len(own) for own in ids]) - shared_lengths(ids)
    middle = np.cumsum(new) - new / 2  # of each one's own prefixes
    leaf_of = np.full(len(data.sequences), -1)
    leaf_of[order] = np.minimum(middle * count / max(new.sum(), 1), count - 1).astype(np.int64)
    own = leaf_of[data.distinct[chosen]]
    return [chosen[own == leaf] for leaf in range(count)]


class GradientTree:
    """Adds the gradients of leaves; see the top of this file.

    Args:
        parameters: that have gradients.
        count: number of leaves, a power of 2.
        others: the learners that share the leaves: each owns as many as any other, next to each
            other. None: there is one.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        count: int = 1,
        others: Together | None = None,
    ) -> None:
        self.parameters, self.count, self.others = tuple(parameters), count, others
        rank, ranks = (0, 1) if others is None else (others.rank, others.ranks)
        each = count // ranks
        self.own = range(rank * each, (rank + 1) * each)
        self._sums: list[tuple[int, Tensor]] = []  # (leaves, sum) of whole subtrees, larger first

    def leaves(self, data: Pack, chosen: IntArray) -> Iterator[IntArray]:
        """Yield one's own leaves, in order; see ``leaves``."""
        self._sums.clear()
        found = leaves(data, chosen, self.count)
        yield from (found[leaf] for leaf in self.own)

    def passes(self, data: Pack) -> int:
        """Return the least number of passes that the last leaf takes, if others wait for them."""
        return 0

    def passing(self, *, last: bool) -> None:
        """Note that the next pass is the last that any learner makes of a leaf, or is not."""

    def mine(self, data: Pack, chosen: IntArray) -> IntArray:
        """Return one's own of the chosen sequences, where they are learnt from without leaves."""
        return chosen

    def add(self) -> None:
        """Take the gradients that the parameters have, which are those of the next leaf."""
        if self.count == 1:
            return
        size, total = 1, self._taken()
        while self._sums and self._sums[-1][0] == size:
            total = self._sums.pop()[1] + total
            size *= 2
        self._sums.append((size, total))

    def finish(self) -> None:
        """Give the parameters the gradients of the minibatch.

        One that took part in no leaf has none.
        """
        if self.count == 1:
            return
        ((_, total),) = self._sums
        self._sums.clear()
        if self.others is not None:
            total = self.others.added(total)
        sizes = [parameter.numel() for parameter in self.parameters]
        *parts, alive = torch.split(total, [*sizes, len(sizes)])
        for parameter, part, times in zip(self.parameters, parts, alive.tolist(), strict=True):
            found = part.view_as(parameter).to(parameter.dtype)
            parameter.grad = found if times else None

    def _taken(self) -> Tensor:
        """Return the gradients as one vector in float32, and after them 1 for each parameter that
        has one; the parameters have none then.
        """
        found = [
            torch.zeros(parameter.numel(), device=parameter.device)
            if parameter.grad is None
            else parameter.grad.reshape(-1).float()
            for parameter in self.parameters
        ]
        alive = [float(parameter.grad is not None) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*found, torch.tensor(alive, device=found[0].device)])

"""Sequences as a tree of their prefixes, so that what they share is computed once.

The games of one batch begin with the same rules, the replies of one group with the same prompt. A
position of a sequence depends on its prefix alone, so every distinct prefix is one node, and all
that a network does to single positions is done once per node. Only attention looks at whole
sequences again.

Legend: R sequences, T the longest one's tokens, N distinct prefixes (nodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparring.core.records import IntArray

# pairs of positions, in all sequences, below which all at once cost less than parts
WHOLE_PAIRS = 1 << 15


class Part(NamedTuple):
    """Sequences whose own prefixes, which no sequence before them in order has, are about as many.

    Attributes:
        rows: the sequences, [K].
        begin: the position of the first own prefix of each, [K].
        queries: positions from there on, as many as the most that one of them owns.
        positions: tokens of the longest.
    """

    rows: Tensor
    begin: Tensor
    queries: int
    positions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixTree:
    """The distinct prefixes of a batch of sequences.

    A sequence shorter than the longest is padded at its end with nodes of other sequences, which no
    earlier position attends to.

    Every prefix is the own one of one sequence. Where sequences share much, ``parts`` puts those
    with about as many own prefixes together, so that attention has to look at own prefixes alone.
    """

    ids: Tensor  # [N] the last token of each prefix
    position: Tensor  # [N] the length of each prefix, less one
    node: Tensor  # [R, T] the prefix that ends at each position of each sequence
    first: Tensor  # [N] a flat index into [R, T] where each prefix is found
    place: Tensor  # [N] the same in what the parts ask, one after the other; without parts `first`
    parts: tuple[Part, ...] = ()  # empty: all positions of all sequences at once cost less

    def to(self, device: torch.device) -> PrefixTree:
        """Return this tree on a device."""
        return PrefixTree(
            ids=self.ids.to(device),
            position=self.position.to(device),
            node=self.node.to(device),
            first=self.first.to(device),
            place=self.place.to(device),
            parts=tuple(
                part._replace(rows=part.rows.to(device), begin=part.begin.to(device))
                for part in self.parts
            ),
        )

    def asked(self) -> Iterator[tuple[Part, Tensor, Tensor]]:
        """Yield each part with the positions [K, queries] that are asked, and their nodes, flat.

        Beyond the end of a sequence its last position, or garbage, is asked in vain.
        """
        for part in self.parts:
            own = part.begin[:, None] + torch.arange(part.queries, device=part.begin.device)
            own.clamp_(max=part.positions - 1)
            yield part, own, self.node[part.rows[:, None], own].flatten()


def prefix_tree(
    sequences: Sequence[tuple[int, ...]], whose: Sequence[int] | None = None
) -> PrefixTree:
    """Return the tree of the prefixes of R non-empty sequences.

    Its nodes stand in the sequences' sorted order.

    Args:
        sequences: the ids of each.
        whose: of each the number of the weights that it is computed with, whose prefixes are its
            own: they stand in the order of these numbers first. None: all have the same.
    """
    owners = np.zeros(len(sequences), dtype=np.int64) if whose is None else np.array(whose)
    order = sorted(range(len(sequences)), key=lambda row: (owners[row], sequences[row]))
    width = max(map(len, sequences))
    ids = np.array(
        [(*sequences[row], *(-1,) * (width - len(sequences[row]))) for row in order], dtype=np.int64
    )
    shared = np.zeros(ids.shape, dtype=bool)
    same = (owners[order][1:] == owners[order][:-1])[:, None]
    equal = (ids[1:] == ids[:-1]) & (ids[1:] >= 0) & same
    shared[1:] = np.logical_and.accumulate(equal, axis=1)
    new = ~shared & (ids >= 0)
    own = np.where(new, np.cumsum(new).reshape(ids.shape) - 1, -1)
    node = np.empty_like(own)
    node[order] = np.maximum(np.maximum.accumulate(own, axis=0), 0)
    row, position = np.nonzero(new)
    first = torch.from_numpy(np.array(order)[row] * width + position)
    parts, place = _parts(np.array(order), new) if new.size * width >= WHOLE_PAIRS else ((), first)
    return PrefixTree(
        ids=torch.from_numpy(ids[new]),
        position=torch.from_numpy(position),
        node=torch.from_numpy(node),
        first=first,
        place=place if parts else first,
        parts=parts,
    )


def _parts(order: IntArray, new: NDArray[np.bool_]) -> tuple[tuple[Part, ...], Tensor]:
    """Return the parts of sequences in sorted order, and where in them each prefix is.

    Args:
        order: the number of each, [R].
        new: whether a position of each is a prefix of its own, [R, T]; those stand side by side.

    Returns:
        No parts if they would have more than half of all positions.
    """
    own, begin = new.sum(1), new.argmax(1)
    sizes = np.ceil(np.log2(np.maximum(own, 1))).astype(np.int64)
    parts, place, count = [], np.zeros(new.shape, dtype=np.int64), 0
    for size in np.unique(sizes[own > 0]).tolist():
        rows = np.flatnonzero((own > 0) & (sizes == size))
        queries, start = int(own[rows].max()), begin[rows]
        index = count + np.arange(len(rows) * queries).reshape(len(rows), queries)
        for row, first, numbers in zip(rows, start, index, strict=True):
            place[row, first : first + own[row]] = numbers[: own[row]]
        positions = int((start + own[rows]).max())
        found = torch.from_numpy(order[rows]), torch.from_numpy(start)
        parts.append(Part(*found, queries=queries, positions=positions))
        count += index.size
    return tuple(parts) if 2 * count <= new.size else (), torch.from_numpy(place[new])


def shared_lengths(sequences: Sequence[tuple[int, ...]]) -> IntArray:
    """Return how many tokens each sequence's beginning shares with the one before, [R].

    The sequences are sorted.
    """
    lengths = [0]
    for before, after in pairwise(sequences):
        limit = min(len(before), len(after))
        if before[:limit] == after[:limit]:
            lengths.append(limit)
            continue
        low, high = 0, limit  # equal up to low, different before high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if before[:middle] == after[:middle] else (low, middle)
        lengths.append(low)
    return np.array(lengths, dtype=np.int64)

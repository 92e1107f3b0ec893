"""Sequences as a tree of their prefixes, so that what they share is computed once.

The games of one batch begin with the same rules, the replies of one group with the same prompt. A
position of a sequence depends on its prefix alone, so every distinct prefix is one node, and all
that a network does to single positions is done once per node. Only attention looks at whole
sequences again.

Legend: R sequences, T the longest one's tokens, N distinct prefixes (nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from sparring.types import IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixTree:
    """The distinct prefixes of a batch of sequences.

    A sequence shorter than the longest is padded at its end with nodes of other sequences, which no
    earlier position attends to.
    """

    ids: Tensor  # [N] the last token of each prefix
    position: Tensor  # [N] the length of each prefix, less one
    node: Tensor  # [R, T] the prefix that ends at each position of each sequence
    first: Tensor  # [N] a flat index into [R, T] where each prefix is found

    def to(self, device: torch.device) -> PrefixTree:
        """Return this tree on a device."""
        parts = {name: getattr(self, name).to(device) for name in self.__slots__}
        return PrefixTree(**parts)


def prefix_tree(sequences: Sequence[tuple[int, ...]]) -> PrefixTree:
    """Return the tree of the prefixes of R non-empty sequences.

    Its nodes stand in the sequences' sorted order.
    """
    order = sorted(range(len(sequences)), key=sequences.__getitem__)
    width = max(map(len, sequences))
    ids = np.array(
        [(*sequences[row], *(-1,) * (width - len(sequences[row]))) for row in order], dtype=np.int64
    )
    shared = np.zeros(ids.shape, dtype=bool)
    shared[1:] = np.logical_and.accumulate((ids[1:] == ids[:-1]) & (ids[1:] >= 0), axis=1)
    new = ~shared & (ids >= 0)
    own = np.where(new, np.cumsum(new).reshape(ids.shape) - 1, -1)
    node = np.empty_like(own)
    node[order] = np.maximum(np.maximum.accumulate(own, axis=0), 0)
    row, position = np.nonzero(new)
    first = np.array(order)[row] * width + position
    arrays = {"ids": ids[new], "position": position, "node": node, "first": first}
    return PrefixTree(**{name: torch.from_numpy(array) for name, array in arrays.items()})


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

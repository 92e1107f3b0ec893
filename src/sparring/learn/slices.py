"""A pack cut into forward passes that fit into memory.

Legend: as in ``pack.py``; R distinct sequences of a forward pass, T tokens, U distinct prefixes
asked for the next token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sparring.core.records import IntArray
from sparring.learn.pack import Magnet, Pack, magnet
from sparring.models.prefixes import PrefixTree, prefix_tree, shared_lengths

PADDED = 8  # padded positions per distinct prefix that a chunk may have: attention pays for them


@dataclass(kw_only=True, slots=True)
class Slice:
    """The sequences of one forward pass, as index arrays into a pack."""

    rows: IntArray  # [R] distinct sequences
    tree: PrefixTree
    asked: Tensor  # [U] prefixes that a token was sampled after
    row: Tensor  # [K] row of each distinct sampled token
    place: Tensor  # [K] which of the U prefixes it was sampled after
    target: Tensor  # [K] the token itself
    kept: list[tuple[int, ...]]  # [K], or empty
    legal: Magnet  # of the K tokens
    spread: Tensor  # [M] distinct sampled token of each sampled token
    tokens: IntArray  # [M] index of each sampled token in the pack
    sequence: Tensor  # [M] number of each token's sequence within this slice
    sequences: IntArray  # [num_sequences] which of the pack's they are

    @property
    def num_sequences(self) -> int:
        """How many sequences it has; equal ones count each."""
        return len(self.sequences)

    def to(self, device: torch.device) -> Slice:
        """Return this slice with its tensors on a device."""
        named = ("asked", "row", "place", "target", "spread", "sequence")
        moved = {name: getattr(self, name).to(device) for name in named}
        return replace(self, tree=self.tree.to(device), legal=self.legal.to(device), **moved)


def slices(
    data: Pack, chosen: IntArray, micro_tokens: int, *, padded: int = PADDED
) -> Iterator[Slice]:
    """Yield the chosen sequences in forward passes that fit; see ``chunks``."""
    begin = np.concatenate([[0], np.cumsum(data.tokens)])
    for rows in chunks(data, np.unique(data.distinct[chosen]), micro_tokens, padded=padded):
        sequences = chosen[np.isin(data.distinct[chosen], rows)]
        yield _slice(data, rows, sequences, begin)


def chunks(
    data: Pack, rows: IntArray, micro_tokens: int, *, padded: int = PADDED
) -> Iterator[IntArray]:
    """Yield distinct sequences in sorted order, so that neighbours share prefixes, in chunks that
    fit.

    A chunk has at most ``micro_tokens`` distinct prefixes, and its padded size at most ``padded``
    times as much (1 for a forward pass that shares no prefixes); a sequence that is longer comes
    alone.
    """
    order = sorted(rows.tolist(), key=data.sequences.__getitem__)
    shared = shared_lengths([data.sequences[row] for row in order])
    begin = nodes = longest = 0
    for end, row in enumerate(order):
        length = len(data.sequences[row])
        new, widest = length - int(shared[end]), max(longest, length)
        if end > begin and (
            nodes + new > micro_tokens or widest * (end + 1 - begin) > padded * micro_tokens
        ):
            yield np.array(order[begin:end])
            begin, nodes, new, widest = end, 0, length, length
        nodes, longest = nodes + new, widest
    if order:
        yield np.array(order[begin:])


def at_samples(found: Tensor, place: Tensor, target: Tensor) -> Tensor:
    """Return what was found for each distribution, [U], or for each token of each, [U, V], at the
    sampled tokens, [K].
    """
    return found[place] if found.ndim == 1 else found[place, target]


def _slice(data: Pack, rows: IntArray, sequences: IntArray, begin: IntArray) -> Slice:
    """Return the index arrays of a forward pass over ``rows`` for the games ``sequences``."""
    positions = [data.positions[row] for row in rows]
    counts = np.array([len(p) for p in positions])
    offset = np.concatenate([[0], np.cumsum(counts)])
    place = np.full(len(data.sequences), -1)
    place[rows] = np.arange(len(rows))
    which = place[data.distinct[sequences]]
    lengths = counts[which]
    tree = prefix_tree([data.sequences[row] for row in rows])
    row, position = (
        torch.from_numpy(np.repeat(np.arange(len(rows)), counts)),
        torch.tensor([p for ps in positions for p in ps]),
    )
    asked, place = torch.unique(tree.node[row, position - 1], return_inverse=True)
    return Slice(
        rows=rows,
        tree=tree,
        asked=asked,
        row=row,
        place=place,
        target=tree.ids[tree.node[row, position]],
        kept=_kept(data, rows, counts),
        legal=magnet([found for row in rows for found in data.legal[row]]),
        spread=torch.from_numpy(_ranges(offset[which], lengths)),
        tokens=_ranges(begin[sequences], lengths),
        sequence=torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths)),
        sequences=sequences,
    )


def _kept(data: Pack, rows: IntArray, counts: IntArray) -> list[tuple[int, ...]]:
    """Return the kept set of each sampled token.

    An empty one where its sequence was not truncated, none where none was.
    """
    if not any(data.kept[row] for row in rows):
        return []
    return [
        ids
        for row, count in zip(rows, counts, strict=True)
        for ids in data.kept[row] or ((),) * int(count)
    ]


def _ranges(start: IntArray, length: IntArray) -> IntArray:
    """Return the concatenation of ``range(start[i], start[i] + length[i])``."""
    shift = np.repeat(start - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    ranges: IntArray = np.arange(length.sum()) + shift
    return ranges

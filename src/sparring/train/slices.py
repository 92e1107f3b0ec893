"""A pack cut into forward passes that fit into memory.

Legend: as in ``pack.py``; R distinct sequences of a forward pass, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparring.train.pack import Pack
from sparring.types import IntArray


@dataclass(kw_only=True, slots=True)
class Slice:
    """The sequences of one forward pass, as index arrays into a pack."""

    rows: IntArray  # [R] distinct sequences
    ids: Tensor  # [R, T]
    row: Tensor  # [K] row of each distinct sampled token
    position: Tensor  # [K] position of each distinct sampled token
    target: Tensor  # [K] the token itself
    kept: list[tuple[int, ...]]  # [K], or empty
    spread: Tensor  # [M] distinct sampled token of each sampled token
    tokens: IntArray  # [M] index of each sampled token in the pack
    sequence: Tensor  # [M] number of each token's sequence within this slice
    num_sequences: int


def slices(data: Pack, chosen: IntArray, micro_tokens: int) -> Iterator[Slice]:
    """Yield the chosen sequences in forward passes of at most ``micro_tokens`` tokens, padding counted."""
    begin = np.concatenate([[0], np.cumsum(data.tokens)])
    for rows in chunks(data, np.unique(data.distinct[chosen]), micro_tokens):
        sequences = chosen[np.isin(data.distinct[chosen], rows)]
        yield _slice(data, rows, sequences, begin)


def chunks(data: Pack, rows: IntArray, micro_tokens: int) -> Iterator[IntArray]:
    """Yield distinct sequences, shortest first, in chunks whose padded size fits; a longer one comes alone."""
    lengths = np.array([len(data.sequences[row]) for row in rows])
    order = np.argsort(lengths, kind="stable")
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or lengths[order[end]] * (end + 1 - begin) > micro_tokens:
            yield rows[order[begin:end]]
            begin = end


def _slice(data: Pack, rows: IntArray, sequences: IntArray, begin: IntArray) -> Slice:
    """Return the index arrays of a forward pass over ``rows`` for the games ``sequences``."""
    positions = [data.positions[row] for row in rows]
    counts = np.array([len(p) for p in positions])
    offset = np.concatenate([[0], np.cumsum(counts)])
    place = np.full(len(data.sequences), -1)
    place[rows] = np.arange(len(rows))
    which = place[data.distinct[sequences]]
    lengths = counts[which]
    ids = padded([data.sequences[row] for row in rows])
    row, position = torch.from_numpy(np.repeat(np.arange(len(rows)), counts)), torch.tensor([p for ps in positions for p in ps])
    return Slice(
        rows=rows,
        ids=ids,
        row=row,
        position=position,
        target=ids[row, position],
        kept=[ids for row in rows for ids in data.kept[row]],
        spread=torch.from_numpy(_ranges(offset[which], lengths)),
        tokens=_ranges(begin[sequences], lengths),
        sequence=torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths)),
        num_sequences=len(sequences),
    )


def _ranges(start: IntArray, length: IntArray) -> IntArray:
    """Return the concatenation of ``range(start[i], start[i] + length[i])``."""
    shift = np.repeat(start - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    ranges: IntArray = np.arange(length.sum()) + shift
    return ranges


def padded(sequences: Sequence[tuple[int, ...]]) -> Tensor:
    """Return sequences as int64 [R, T], right-padded with 0, which no earlier position attends to."""
    width = max(map(len, sequences))
    return torch.tensor([(*ids, *(0,) * (width - len(ids))) for ids in sequences], dtype=torch.int64)

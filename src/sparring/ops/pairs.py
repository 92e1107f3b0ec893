"""Pairs of a better and a worse member of one group.

Legend: K members; P pairs, each the index of the better and of the worse. Values closer than
rounding are ties, which make no pair.
"""

from __future__ import annotations

import numpy as np

from sparring.types import BoolArray, FloatArray, IntArray

TIE = 1e-9  # relative to the larger of the two values and 1


def one_to_one(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return pairs in which nobody is twice.

    The best of a group with its worst, the second best with the second worst, and so on.

    Where values are 0 and 1, that is as many pairs as there are of the rarer of the two.

    Args:
        values: [K].
        ids: int64 [K], the group of each.
    """
    order = np.lexsort((values, ids))
    _, start, size = np.unique(ids[order], return_index=True, return_counts=True)
    place = np.arange(len(order))
    mirrored = np.repeat(2 * start + size - 1, size) - place
    lower = place < mirrored
    better, worse = order[mirrored[lower]], order[place[lower]]
    kept = _differ(values[better], values[worse])
    return better[kept], worse[kept]


def every_pair(values: FloatArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return all pairs of a group whose values differ; arguments as ``one_to_one``."""
    order = np.lexsort((values, ids))
    largest = int(np.unique(ids, return_counts=True)[1].max(initial=0))
    better, worse = [order[:0]], [order[:0]]
    for shift in range(1, largest):
        low, high = order[:-shift], order[shift:]
        kept = (ids[low] == ids[high]) & _differ(values[high], values[low])
        better.append(high[kept])
        worse.append(low[kept])
    return np.concatenate(better), np.concatenate(worse)


def _differ(high: FloatArray, low: FloatArray) -> BoolArray:
    """Return where the first is larger by more than rounding."""
    larger: BoolArray = high - low > TIE * np.maximum(1.0, np.maximum(np.abs(high), np.abs(low)))
    return larger

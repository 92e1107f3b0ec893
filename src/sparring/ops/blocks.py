"""Order statistics inside groups, in numpy; groups of equal size become rows of one matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.groups import ROUNDING, group_counts


def equal_sized(ids: IntArray, num_groups: int) -> Iterator[IntArray]:
    """Yield, for each group size s that occurs, the rows of all groups of that size.

    Args:
        ids: int64 [N] in 0..num_groups-1, group of each row.
        num_groups: number of groups.

    Yields:
        Row numbers, int64 [groups, s].
    """
    counts = group_counts(ids, num_groups)
    order = np.argsort(ids, kind="stable")
    starts = np.cumsum(counts) - counts
    for size in np.unique(counts[counts > 0]).tolist():
        yield order[starts[counts == size][:, None] + np.arange(size)]


def lower_median(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return the median of each group, [G]; the lower of the middle two; 0 without rows."""
    median = np.zeros(num_groups)
    for rows in equal_sized(ids, num_groups):
        middle = (rows.shape[1] - 1) // 2
        median[ids[rows[:, 0]]] = np.partition(values[rows], middle, axis=1)[:, middle]
    return median


def best_two(values: FloatArray, ids: IntArray, num_groups: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the second largest value of each group, [G] each; of one row twice."""
    best, second = np.zeros(num_groups), np.zeros(num_groups)
    for rows in equal_sized(ids, num_groups):
        size, groups = rows.shape[1], ids[rows[:, 0]]
        top = np.partition(values[rows], max(size - 2, 0), axis=1)
        best[groups], second[groups] = top[:, -1], top[:, max(size - 2, 0)]
    return best, second


def steps(ordered: FloatArray) -> BoolArray:
    """Return where neighbours of sorted rows [groups, s] differ, bool [groups, s - 1]."""
    size = np.abs(ordered).max(axis=1, keepdims=True)
    differ: BoolArray = np.abs(np.diff(ordered, axis=1)) > ROUNDING * size
    return differ


def tied_means(differ: BoolArray, by_position: FloatArray) -> FloatArray:
    """Return, per place of sorted rows, the mean of ``by_position`` over its run of equal members.

    Args:
        differ: bool [groups, s - 1], where a member differs from the one before it, as ``steps``
            gives.
        by_position: [s] or [groups, s], value of each place before ties are averaged.

    Returns:
        float64 [groups, s].
    """
    runs, groups, size = _runs(differ), len(differ), differ.shape[1] + 1
    expanded = np.broadcast_to(by_position, (groups, size)).reshape(-1)
    means: FloatArray = (np.bincount(runs, weights=expanded) / np.bincount(runs))[runs].reshape(
        groups, size
    )
    return means


def _runs(differ: BoolArray) -> IntArray:
    """Return the number of the run of equal members each place is in, [groups * s]."""
    begins = np.concatenate([np.ones((len(differ), 1), dtype=bool), differ], axis=1)
    return np.cumsum(begins.reshape(-1)) - 1


def distinct_rows(flags: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct pattern, and the pattern number of each row.

    Args:
        flags: bool [groups, w].
    """
    if flags.shape[1] <= 62:
        codes = flags @ (np.int64(1) << np.arange(flags.shape[1], dtype=np.int64))
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(flags, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.astype(np.int64).reshape(-1)


def shares(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return, per row, the share of its group that has the same value up to rounding, [N]."""
    result = np.ones(len(values))
    for rows in equal_sized(ids, num_groups):
        members = np.take_along_axis(rows, np.argsort(values[rows], axis=1), axis=1)
        runs = _runs(steps(values[members]))
        result[members] = (np.bincount(runs)[runs] / rows.shape[1]).reshape(members.shape)
    return result

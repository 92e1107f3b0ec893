"""Order statistics within groups of rows; groups of equal size are computed as one matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.groups import RELATIVE_TOLERANCE, group_counts


def rows_by_size(ids: IntArray, num_groups: int) -> Iterator[IntArray]:
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
    """Return each group's median, [G]: the lower of two middle values; 0 without rows."""
    median = np.zeros(num_groups)
    for rows in rows_by_size(ids, num_groups):
        middle = (rows.shape[1] - 1) // 2
        median[ids[rows[:, 0]]] = np.partition(values[rows], middle, axis=1)[:, middle]
    return median


def best_two(values: FloatArray, ids: IntArray, num_groups: int) -> tuple[FloatArray, FloatArray]:
    """Return each group's two largest values, [G] each; the value of a single row counts twice."""
    best, second_best = np.zeros(num_groups), np.zeros(num_groups)
    for rows in rows_by_size(ids, num_groups):
        size, groups = rows.shape[1], ids[rows[:, 0]]
        largest_last = np.partition(values[rows], max(size - 2, 0), axis=1)
        best[groups], second_best[groups] = largest_last[:, -1], largest_last[:, max(size - 2, 0)]
    return best, second_best


def differs_from_previous(ordered: FloatArray) -> BoolArray:
    """Return whether each value differs from the previous one in sorted rows, [groups, s - 1]."""
    size = np.abs(ordered).max(axis=1, keepdims=True)
    differ: BoolArray = np.abs(np.diff(ordered, axis=1)) > RELATIVE_TOLERANCE * size
    return differ


def average_over_ties(differ: BoolArray, by_position: FloatArray) -> FloatArray:
    """Return ``by_position`` averaged over each run of equal values in sorted rows.

    Args:
        differ: bool [groups, s - 1], result of ``differs_from_previous``.
        by_position: [s] or [groups, s], value of each position before ties are averaged.

    Returns:
        float64 [groups, s].
    """
    runs, groups, size = _run_numbers(differ), len(differ), differ.shape[1] + 1
    expanded = np.broadcast_to(by_position, (groups, size)).reshape(-1)
    means: FloatArray = (np.bincount(runs, weights=expanded) / np.bincount(runs))[runs].reshape(
        groups, size
    )
    return means


def _run_numbers(differ: BoolArray) -> IntArray:
    is_run_start = np.concatenate([np.ones((len(differ), 1), dtype=bool), differ], axis=1)
    return np.cumsum(is_run_start.reshape(-1)) - 1


def distinct_rows(flags: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct pattern, and the index of each row's pattern.

    Args:
        flags: bool [groups, w].
    """
    if flags.shape[1] <= 62:
        codes = flags @ (np.int64(1) << np.arange(flags.shape[1], dtype=np.int64))
        _, first_rows, inverse = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first_rows, inverse = np.unique(flags, axis=0, return_index=True, return_inverse=True)
    return first_rows.astype(np.int64), inverse.astype(np.int64).reshape(-1)


def shares_of_value(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return for each row the share of its group with the same value up to rounding, [N]."""
    result = np.ones(len(values))
    for rows in rows_by_size(ids, num_groups):
        members = np.take_along_axis(rows, np.argsort(values[rows], axis=1), axis=1)
        runs = _run_numbers(differs_from_previous(values[members]))
        result[members] = (np.bincount(runs)[runs] / rows.shape[1]).reshape(members.shape)
    return result

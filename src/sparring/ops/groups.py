"""Grouped statistics over integer keys, in numpy. N rows, G groups."""

from __future__ import annotations

import numpy as np

from sparring.core.records import FloatArray, IntArray


def group_ids(*columns: IntArray) -> tuple[IntArray, int]:
    """Return one id per row, equal exactly where all columns are equal, and the number of groups.

    Args:
        columns: one or more integer arrays [N].

    Returns:
        ids int64 [N] in 0..G-1, and G.
    """
    ids, count = _dense(columns[0])
    for column in columns[1:]:
        other, size = _dense(column)
        if size > 1:  # a column that is all alike parts nothing
            ids, count = _dense(ids * size + other)
    return ids, count


def _dense(column: IntArray) -> tuple[IntArray, int]:
    """Return the column renumbered to 0..G-1, and G."""
    if not len(column):
        return column.astype(np.int64), 0
    low, high = int(column.min()), int(column.max())
    if low == high:
        return np.zeros(len(column), dtype=np.int64), 1
    if high - low < 4 * len(column) + 16:  # a table beats sorting
        used = np.zeros(high - low + 1, dtype=bool)
        used[column - low] = True
        return (np.cumsum(used) - 1)[column - low], int(used.sum())
    unique, inverse = np.unique(column, return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), len(unique)


def group_counts(ids: IntArray, num_groups: int) -> IntArray:
    """Return the number of rows of each group, [G]."""
    counts: IntArray = np.bincount(ids, minlength=num_groups)
    return counts


def group_sum(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return the sum of each group, [G]."""
    return np.bincount(ids, weights=values, minlength=num_groups).astype(np.float64)


def group_mean(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return the mean of each group, [G]; 0 for groups without rows.

    Exact to rounding for values near 1e6, and where all are equal.
    """
    some = np.zeros(num_groups)
    # one value of each group: sums are taken relative to it, so that no other group's size leaves
    # rounding here
    some[ids] = values
    return some + group_sum(values - some[ids], ids, num_groups) / np.maximum(
        group_counts(ids, num_groups), 1
    )


def centre(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return values minus their group's mean, [N].

    A second pass removes what rounding left of the first.
    """
    once = values - group_mean(values, ids, num_groups)[ids]
    return once - group_mean(once, ids, num_groups)[ids]


def group_std(values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1) -> FloatArray:
    """Return the standard deviation of each group, [G].

    It is 0 where a group has no more than ``ddof`` rows.
    """
    centred = centre(values, ids, num_groups)
    degrees = group_counts(ids, num_groups) - ddof
    variance = group_sum(centred * centred, ids, num_groups) / np.maximum(degrees, 1)
    deviation: FloatArray = np.sqrt(np.where(degrees > 0, variance, 0.0))
    return deviation


def leave_one_out_mean(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return, per row, the mean of the other rows of its group, [N].

    A row alone in its group gets its own value.
    """
    counts = group_counts(ids, num_groups)[ids]
    centred = centre(values, ids, num_groups)
    # mean of the others = mean - (value - mean) / (n - 1)
    return values - centred * (1.0 + 1.0 / np.maximum(counts - 1, 1)) * (counts > 1)

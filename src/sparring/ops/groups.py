"""Statistics over groups of rows, and sums along trajectories, in numpy.

N rows; G groups, given by integer keys. A trajectory is a contiguous run of rows.
"""

from __future__ import annotations

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray


def group_ids(*columns: IntArray) -> tuple[IntArray, int]:
    """Return one id per row and the number of groups; ids are equal if all columns are equal.

    Args:
        columns: one or more integer arrays [N].

    Returns:
        ids int64 [N] in 0..G-1, and G.
    """
    ids, num_groups = _dense_ids(columns[0])
    for column in columns[1:]:
        column_ids, num_values = _dense_ids(column)
        if num_values > 1:  # a constant column splits no group
            ids, num_groups = _dense_ids(ids * num_values + column_ids)
    return ids, num_groups


def _dense_ids(column: IntArray) -> tuple[IntArray, int]:
    if not len(column):
        return column.astype(np.int64), 0
    low, high = int(column.min()), int(column.max())
    if low == high:
        return np.zeros(len(column), dtype=np.int64), 1
    if high - low < 4 * len(column) + 16:  # a table is faster than sorting
        is_used = np.zeros(high - low + 1, dtype=bool)
        is_used[column - low] = True
        return (np.cumsum(is_used) - 1)[column - low], int(is_used.sum())
    unique_values, inverse = np.unique(column, return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), len(unique_values)


def group_counts(ids: IntArray, num_groups: int) -> IntArray:
    """Return the number of rows of each group, [G]."""
    counts: IntArray = np.bincount(ids, minlength=num_groups)
    return counts


def group_sum(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return the sum of each group, [G]."""
    return np.bincount(ids, weights=values, minlength=num_groups).astype(np.float64)


def group_mean(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return the mean of each group, [G]; 0 without rows; exact for equal values."""
    origin = np.zeros(num_groups)
    # sums are relative to one value of each group, so that large values cause no rounding errors
    origin[ids] = values
    return origin + group_sum(values - origin[ids], ids, num_groups) / np.maximum(
        group_counts(ids, num_groups), 1
    )


def centre(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return values minus their group's mean, [N]; a second pass removes rounding errors."""
    centred = values - group_mean(values, ids, num_groups)[ids]
    return centred - group_mean(centred, ids, num_groups)[ids]


def group_std(values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1) -> FloatArray:
    """Return the standard deviation of each group, [G]; 0 for at most ``ddof`` rows."""
    centred = centre(values, ids, num_groups)
    degrees = group_counts(ids, num_groups) - ddof
    variance = group_sum(centred * centred, ids, num_groups) / np.maximum(degrees, 1)
    deviation: FloatArray = np.sqrt(np.where(degrees > 0, variance, 0.0))
    return deviation


def leave_one_out_mean(values: FloatArray, ids: IntArray, num_groups: int) -> FloatArray:
    """Return each row's mean over the other rows of its group, [N]; if alone, its own value."""
    counts = group_counts(ids, num_groups)[ids]
    centred = centre(values, ids, num_groups)
    # mean of the others = mean - (value - mean) / (n - 1)
    return values - centred * (1.0 + 1.0 / np.maximum(counts - 1, 1)) * (counts > 1)


# values whose deviation is below this share of their mean absolute value count as equal
RELATIVE_TOLERANCE = 1e-13


def group_std_or_zero(
    values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1
) -> FloatArray:
    """Return ``group_std``, [G], but exactly 0 if the values differ only by rounding."""
    centred, counts = centre(values, ids, num_groups), group_counts(ids, num_groups)
    variance = group_sum(centred * centred, ids, num_groups) / np.maximum(counts - ddof, 1)
    mean_abs = group_sum(np.abs(values), ids, num_groups) / np.maximum(counts, 1)
    deviation = np.sqrt(variance)
    is_varied = (counts > ddof) & (deviation > RELATIVE_TOLERANCE * mean_abs)
    return np.where(is_varied, deviation, 0.0)


def is_varied(values: FloatArray, ids: IntArray, num_groups: int) -> BoolArray:
    """Return whether the values of each group differ by more than rounding, [G]."""
    return group_std_or_zero(values, ids, num_groups, ddof=0) > 0.0


def divide_by_deviation(
    differences: FloatArray,
    values: FloatArray,
    ids: IntArray,
    num_groups: int,
    *,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Return differences divided by the standard deviation of their group's values, [N].

    Equation:
        result[i] = differences[i] / (std of values[j] over j in the group of i + epsilon)

    The result is exactly 0 in groups of one row or of equal values.

    Args:
        differences: float64 [N], ``values`` minus any baseline.
        values: float64 [N], whose deviation is taken. (``standardise`` also subtracts their mean.)
        ids: int64 [N], group of each row.
        num_groups: number of groups G.
        ddof: 1 for the sample deviation, 0 for the population's.
        epsilon: added to the deviation.
    """
    deviation = group_std_or_zero(values, ids, num_groups, ddof=ddof)
    quotient: FloatArray = differences / np.where(deviation > 0.0, deviation + epsilon, np.inf)[ids]
    return quotient


def standardise(
    values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1, epsilon: float = 1e-6
) -> FloatArray:
    """Return (value - mean) / (deviation + epsilon) by group, [N]; 0 in groups of equal values.

    Args:
        values: float64 [N].
        ids: int64 [N], group of each row.
        num_groups: number of groups G.
        ddof: 1 for the sample deviation, 0 for the population's.
        epsilon: added to the deviation.
    """
    deviation = group_std_or_zero(values, ids, num_groups, ddof=ddof)
    factor = np.divide(1.0, deviation + epsilon, out=np.zeros(num_groups), where=deviation > 0.0)
    return centre(values, ids, num_groups) * factor[ids]


def whiten_values(values: FloatArray, weights: FloatArray, mean_abs: float) -> FloatArray:
    """Return values with weighted mean 0 and sample variance 1, [N]; zeros if all are equal.

    Args:
        values: float64 [N].
        weights: float64 [N], number of times that each value counts.
        mean_abs: mean absolute value of the inputs, to which the tolerance of rounding is relative.
    """
    total = float(weights.sum())
    if total < 2.0:
        return np.zeros_like(values)
    centred = values - float(values @ weights) / total
    centred -= float(centred @ weights) / total
    variance = float((centred * centred) @ weights) / (total - 1.0)
    if variance <= (RELATIVE_TOLERANCE * mean_abs) ** 2:
        return np.zeros_like(values)
    return centred / float(np.sqrt(variance + 1e-8))


def backward_recurrence(
    inputs: FloatArray, coefficient: float | FloatArray, trajectory: IntArray
) -> FloatArray:
    """Return the discounted sum from each row to the end of its trajectory, float64 [N].

    Equation:
        x[t] = inputs[t] + coefficient * x[t+1] inside a trajectory; x = inputs at its last row

    Args:
        inputs: float64 [N].
        coefficient: the factor, usually gamma or gamma * lambda; [N] for a factor per row.
        trajectory: int64 [N], non-decreasing; equal for the rows of a trajectory.
    """
    result = np.array(inputs, dtype=np.float64)
    is_scalar = isinstance(coefficient, float | int)
    if len(result) == 0 or (is_scalar and coefficient == 0.0):
        return result
    factor = np.broadcast_to(np.asarray(coefficient, dtype=np.float64), result.shape)
    last_rows = np.flatnonzero(np.append(np.diff(trajectory) != 0, True))
    lengths = np.diff(np.append(-1, last_rows))
    # longest first, so that the trajectories with remaining rows come first
    order = np.argsort(-lengths, kind="stable")
    rows, lengths = last_rows[order], lengths[order]
    for distance in range(1, int(lengths[0])):
        # trajectories longer than ``distance``
        num_unfinished = int(np.searchsorted(-lengths, -distance, side="left"))
        rows = rows[:num_unfinished]
        result[rows - 1] += (coefficient if is_scalar else factor[rows - 1]) * result[rows]
        rows = rows - 1
    return result


def discounted_returns(reward: FloatArray, trajectory: IntArray, *, gamma: float) -> FloatArray:
    """Return G[t] = sum over k >= t of gamma^(k-t) reward[k] in each trajectory, float64 [N]."""
    return backward_recurrence(reward, gamma, trajectory)


def generalised_advantages(
    reward: FloatArray, value: FloatArray, trajectory: IntArray, *, gamma: float, lam: float
) -> FloatArray:
    """Return turn-level generalised advantage estimates, float64 [N].

    delta[t] = reward[t] + gamma * value[t+1] - value[t], with value 0 after the last turn;
    A[t] = delta[t] + gamma * lam * A[t+1] (Schulman et al., 2016).
    """
    delta = reward + gamma * next_values(value, trajectory) - value
    return backward_recurrence(delta, gamma * lam, trajectory)


def next_values(values: FloatArray, trajectory: IntArray) -> FloatArray:
    """Return the value of the next row of the trajectory, [N]; 0 for its last row."""
    next_row_values = np.zeros(len(values))
    next_row_values[:-1] = np.where(trajectory[1:] == trajectory[:-1], values[1:], 0.0)
    return next_row_values


def trajectory_starts(trajectory: IntArray) -> IntArray:
    """Return the first row of each trajectory, in order."""
    if not len(trajectory):
        return np.zeros(0, dtype=np.int64)
    starts: IntArray = np.flatnonzero(np.append(True, np.diff(trajectory) != 0))
    return starts


def trajectory_sums(values: FloatArray, trajectory: IntArray) -> FloatArray:
    """Return the sum of each trajectory's rows, in order of the trajectories."""
    starts = trajectory_starts(trajectory)
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0)

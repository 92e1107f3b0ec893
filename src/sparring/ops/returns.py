"""Returns and advantages along trajectories, in numpy.

N turns; a trajectory is a contiguous run of rows.
"""

from __future__ import annotations

import numpy as np

from sparring.core.records import FloatArray, IntArray


def backward_recurrence(
    inputs: FloatArray, coefficient: float | FloatArray, trajectory: IntArray
) -> FloatArray:
    """Return the sum from each row on, discounted by coefficients.

    It is x[t] = inputs[t] + coefficient * x[t+1] inside each trajectory, and x = inputs at its last
    row.

    Args:
        inputs: float64 [N].
        coefficient: the factor, usually gamma or gamma * lambda; [N] for one of its own per row
            (coefficient[t]).
        trajectory: int64 [N], non-decreasing; equal for the rows of a trajectory.

    Returns:
        float64 [N]. All trajectories are advanced together, one vector operation per turn index
        from the end.
    """
    result = np.array(inputs, dtype=np.float64)
    one = isinstance(coefficient, float | int)
    if len(result) == 0 or (one and coefficient == 0.0):
        return result
    factor = np.broadcast_to(np.asarray(coefficient, dtype=np.float64), result.shape)
    last = np.flatnonzero(np.append(np.diff(trajectory) != 0, True))
    lengths = np.diff(np.append(-1, last))
    # longest first, so that those still running are a prefix
    order = np.argsort(-lengths, kind="stable")
    rows, lengths = last[order], lengths[order]
    for distance in range(1, int(lengths[0])):
        # trajectories longer than ``distance``
        running = int(np.searchsorted(-lengths, -distance, side="left"))
        rows = rows[:running]
        result[rows - 1] += (coefficient if one else factor[rows - 1]) * result[rows]
        rows = rows - 1
    return result


def discounted_returns(reward: FloatArray, trajectory: IntArray, *, gamma: float) -> FloatArray:
    """Return the discounted return from each row on, float64 [N].

    It is G[t] = sum over k >= t of gamma^(k-t) reward[k] inside each trajectory.
    """
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
    """Return each row's successor's value within its trajectory, 0 after the last row, [N]."""
    following = np.zeros(len(values))
    following[:-1] = np.where(trajectory[1:] == trajectory[:-1], values[1:], 0.0)
    return following


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

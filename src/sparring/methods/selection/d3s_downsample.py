"""Selection: the trajectories whose advantages vary most (D3S)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, FloatArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import best_first, trajectories
from sparring.ops.groups import centre


def d3s_downsample(
    turns: TurnTable, stream: Stream, *, share: Annotated[float, Field(gt=0, le=1)] = 0.5
) -> BoolArray:
    """Keep the subset of trajectories across all groups whose advantages have the largest variance.

    What: the subset of largest variance consists of the largest and the smallest advantages. A
    search finds the number of each.
    When to use: to spend an update on the most informative trajectories. D3S also selects tokens,
    by the loss ``d3s_tokens``.
    Mathematics:
        A_i = R_i - mean of its group
        n = max(1, ceil(share * J))
    The search is exact: it sorts A, and tries the first k and the last n - k for k = 0..n.
    Shapes: mask [N]; groups per (group, role); J trajectories.
    Pitfalls:
        - The estimator sees only the subset, and its group means move towards the extremes.
        - Games with large payoffs dominate the others, because A is not divided by the deviation.
        - If two subsets have equal variance, the rule takes the one with more large advantages.
        - With both seats trained, an episode stays if one of its trajectories stays.
        - The paper's schedule of (N, K) is not implemented; write a schedule of ``share`` instead.
    Reference: D3S (dynamic dual-level down-sampling); the exact search as in Xu et al., 2025 (PODS,
    arXiv 2504.13818).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        share: share of all trajectories to keep, above 0 and at most 1; 1 keeps all. A number or a
            schedule; the paper's schedule is linear over the run.

    Raises:
        CreditError: a reward is not finite.
    """
    data = trajectories(turns, "d3s_downsample")
    advantages = centre(data.returns, data.groups, data.num_groups)
    num_trajectories = len(advantages)
    num_kept = min(num_trajectories, max(1, int(np.ceil(share * num_trajectories - 1e-9))))
    order = best_first(advantages, data.draws(stream))
    num_top = _num_largest(advantages[order], num_kept)
    mask = np.zeros(num_trajectories, dtype=bool)
    mask[order[:num_top]] = True
    mask[order[num_trajectories - (num_kept - num_top) :]] = True
    return data.row_mask(mask)


def _num_largest(descending: FloatArray, num_kept: int) -> int:
    """Return how many of the largest values are in the subset of largest variance."""
    if not len(descending):
        return 0
    scaled_values = descending / max(float(np.abs(descending).max()), 1e-300)
    sums = np.concatenate([[0.0], np.cumsum(scaled_values)])
    squares = np.concatenate([[0.0], np.cumsum(scaled_values * scaled_values)])
    num_top = np.arange(num_kept, -1, -1)
    bottom_start = len(scaled_values) - (num_kept - num_top)
    mean = (sums[num_top] + sums[-1] - sums[bottom_start]) / num_kept
    variance = (squares[num_top] + squares[-1] - squares[bottom_start]) / num_kept - mean * mean
    best_index = np.flatnonzero(variance >= variance.max() - 1e-12)[0]
    return int(num_top[best_index])

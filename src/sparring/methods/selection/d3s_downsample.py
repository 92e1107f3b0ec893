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

    What: the subset of given size with the largest variance takes the top and the bottom end; a
    search finds the numbers of both.
    When to use: to spend an update on the most informative trajectories. D3S adds a loss that does
    the same to tokens (``d3s_tokens``).
    Mathematics:
        A_i = R_i - mean of its group
        n = max(1, ceil(share * J))
    The subset of n trajectories with the largest Var(A) is found exactly: of the sorted A the first
    k and the last n - k, best of k = 0..n.
    Shapes: mask [N]; groups per (group, role); J trajectories.
    Pitfalls:
        - The estimator sees only the subset, and its group means move towards the extremes.
        - Games with large payoffs dominate the others, because A is not divided by the deviation.
        - Of two subsets of equal variance the rule takes the one with more from the top.
        - With both seats trained, an episode stays if one of its trajectories does.
        - The paper's (N, K) schedule is a parameter: literal reading.
    Reference: D3S (dynamic dual-level down-sampling); the exact search as in Xu et al., 2025 (PODS,
    arXiv 2504.13818).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        share: share of all trajectories that are kept, above 0 and at most 1; 1 keeps all. A number
            or a schedule; linear over the run in the paper.

    Raises:
        CreditError: a reward is not finite.
    """
    data = trajectories(turns, "d3s_downsample")
    advantages = centre(data.returns, data.groups, data.num_groups)
    count = len(advantages)
    number = min(count, max(1, int(np.ceil(share * count - 1e-9))))
    order = best_first(advantages, data.draws(stream))
    top = _best_top(advantages[order], number)
    mask = np.zeros(count, dtype=bool)
    mask[order[:top]] = True
    mask[order[count - (number - top) :]] = True
    return data.rows(mask)


def _best_top(descending: FloatArray, number: int) -> int:
    """Return the count from the top, of ``number`` values from both ends, of largest variance."""
    if not len(descending):
        return 0
    scaled = descending / max(float(np.abs(descending).max()), 1e-300)
    sums = np.concatenate([[0.0], np.cumsum(scaled)])
    squares = np.concatenate([[0.0], np.cumsum(scaled * scaled)])
    top = np.arange(number, -1, -1)
    bottom = len(scaled) - (number - top)
    mean = (sums[top] + sums[-1] - sums[bottom]) / number
    variance = (squares[top] + squares[-1] - squares[bottom]) / number - mean * mean
    best: int = top[np.flatnonzero(variance >= variance.max() - 1e-12)[0]]
    return int(best)

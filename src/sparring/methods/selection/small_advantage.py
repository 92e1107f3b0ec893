"""Selection: drop trajectories whose return is close to their group's (LOOP)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import best_first, trajectories
from sparring.ops.groups import leave_one_out_mean


def small_advantage(
    turns: TurnTable,
    stream: Stream,
    *,
    threshold: Annotated[float, Field(ge=0)] = 0.01,
    multiple: Annotated[int, Field(ge=1)] = 1,
) -> BoolArray:
    """Drop trajectories whose return is within a threshold of the mean of the others in the group.

    What: the update leaves out trajectories with small advantages. The rule drops a group of equal
    returns completely.
    When to use: long tasks, where every trajectory of the update is costly; with ``credit: loop``
    or ``rloo``.
    Mathematics:
        A_i = R_i - mean over j != i of R_j
    The rule keeps trajectories with |A_i| >= threshold. Then trajectories of the largest |A| join
    until the number is a multiple of ``multiple``.
    Shapes: mask [N]; groups per (group, role).
    Pitfalls:
        - The estimator computes its baseline without the dropped trajectories, so the group's mean
          and deviation come from the extremes. Credit ``loop`` can drop trajectories after it
          computes the baseline of the complete group, as in the paper.
        - In a group of one A is 0, so the rule drops the group.
        - With both seats trained, an episode stays if one of its trajectories stays.
    Reference: Chen et al., 2025 (arXiv 2502.01600); code of apple/ml-loop, train.py (rounds up to
    the number of its workers).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        threshold: smallest |A| that is kept, in units of returns, at least 0. 0 keeps all.
        multiple: the rule rounds the number of trajectories up to a multiple of this, at least 1,
            if there are enough trajectories. 1 (default): no rounding.

    Raises:
        CreditError: a reward is not finite.
    """
    data = trajectories(turns, "small_advantage")
    has_different_returns = data.deviations()[data.groups] > 0
    advantage_sizes = np.where(
        has_different_returns,
        np.abs(data.returns - leave_one_out_mean(data.returns, data.groups, data.num_groups)),
        0.0,
    )
    num_kept = -(-int((advantage_sizes >= threshold).sum()) // multiple) * multiple
    mask = np.zeros(len(advantage_sizes), dtype=bool)
    mask[best_first(advantage_sizes, data.draws(stream))[:num_kept]] = True
    return data.row_mask(mask)

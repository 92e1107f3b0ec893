"""Credit: leave-one-out PPO's advantages (LOOP)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import group_std_or_zero, is_varied, leave_one_out_mean

GROUP_RELATIVE = True


def loop(
    turns: TurnTable,
    *,
    divide_by_std: bool = False,
    min_advantage: Annotated[float, Field(ge=0)] = 0.01,
) -> Credit:
    """Compare with the mean of the other trajectories of the group, and ignore small differences.

    What: The advantage of ``rloo``, set to 0 where it is small, optionally divided by the group's
    deviation.
    When to use: long interactive tasks with several rollouts per initial state. Trajectories of
    small advantage then cost no gradient.
    Mathematics:
        A_i = R_i - mean over j != i of R_j [/ max(std_g R, 1e-7)]
        A_i = 0 where |A_i| < min_advantage
    With ``divide_by_std`` the sample deviation divides the whole difference, as in brackets.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls:
        - The threshold is in reward units, or with the division in standard deviations.
        - Without the division, returns of a group that differ by less than 0.01 all get 0.
        - Setting small advantages to 0 biases the gradient by less than the threshold per turn.
        - The authors' code drops such trajectories; here a mean over the batch still counts them.
        - A group of one trajectory, or of equal returns, gives 0.
    Reference: Chen et al., 2025 (arXiv 2502.01600); code of apple/ml-loop.
    Verified by: tests/methods/credit/test_group_baselines.py,
    tests/methods/credit/test_group_bias.py.

    Args:
        divide_by_std: true divides by the group's sample deviation. False (default) leaves the
            difference in reward units.
        min_advantage: advantages whose size is below this are set to 0; at least 0, in reward
            units, or in deviations with ``divide_by_std``. 0 keeps all, which is ``rloo``; the
            default is 0.01.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    differences = returns - leave_one_out_mean(returns, ids, num_groups)
    advantages = np.where(is_varied(returns, ids, num_groups)[ids], differences, 0.0)
    if divide_by_std:
        advantages = advantages / np.maximum(group_std_or_zero(returns, ids, num_groups), 1e-7)[ids]
    advantages = np.where(np.abs(advantages) < min_advantage, 0.0, advantages)
    return Credit(advantages=broadcast_to_turns(advantages, turns))

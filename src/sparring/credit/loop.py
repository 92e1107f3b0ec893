"""Credit: leave-one-out PPO's advantages (LOOP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread, start_groups, trajectory_returns
from sparring.ops.groups import leave_one_out_mean
from sparring.ops.standardise import deviations, varied
from sparring.types import Credit, TurnTable


def loop(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    divide_by_std: bool = False,
    min_advantage: Annotated[float, Field(ge=0)] = 0.01,
) -> Credit:
    """Compare with the mean of the others that started alike, and ignore trajectories close to it.

    What: ``rloo``'s advantage, set to 0 where it is small, optionally over the group's deviation.
    When to use: long interactive tasks with several rollouts per start; trajectories that teach little then cost no gradient.
    Mathematics: A_i = R_i - mean over j != i of R_j [/ max(std_g R, 1e-7)]; A_i = 0 where |A_i| < min_advantage. Sample deviation.
    Shapes: advantages [N]; groups per (group, role).
    Options: ``divide_by_std``; ``min_advantage`` 0 keeps all, which is ``rloo``.
    Pitfalls: the threshold is in the units of rewards (after the division, if there is one): rewards below 0.01 all vanish. What
    is cut off biases the gradient by less than the threshold per turn. The release drops such trajectories from the batch; here
    they keep their place with advantage 0, so a mean over the batch still counts them. A group of one gives 0, as do equal returns.
    Reference: Chen et al., 2025 (arXiv 2502.01600); code of apple/ml-loop.
    Verified by: tests/credit/test_loop.py, tests/credit/test_group_bias.py.

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "loop")
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    ids = groups[starts]
    advantages = np.where(varied(returns, ids, count)[ids], returns - leave_one_out_mean(returns, ids, count), 0.0)
    if divide_by_std:
        advantages = advantages / np.maximum(deviations(returns, ids, count), 1e-7)[ids]
    return Credit(advantages=spread(np.where(np.abs(advantages) < min_advantage, 0.0, advantages), turns), state=dict(state))

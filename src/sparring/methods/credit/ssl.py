"""Credit: success plus tiers of progress, relative to the group (SSL, Sweet Spot)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.methods.credit.base import component as reward_component
from sparring.ops.groups import centre, standardise, trajectory_sums

GROUP_RELATIVE = True
REQUIRES = {"components": {"component"}}  # options that name components


def ssl(
    turns: TurnTable,
    *,
    component: str = "best_action",
    tiers: tuple[float, ...] = (0.25, 0.5, 0.75),
    alpha: Annotated[float, Field(ge=0, lt=1)] = 0.5,
    success: float = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Reward success first and, within success and failure, tiers of progress.

    What: ``grpo`` on success plus a graded bonus. The grades come from a named reward component
    that measures progress.
    When to use: an outcome of right and wrong in which success is too rare to learn from, with a
    measure of progress that is reliable only in coarse steps.
    Mathematics:
        C_i = 1 if the return without the component >= success, else 0
        S_i = (number of tiers that the component's sum reaches) / (number of tiers)
        x_i = C_i + alpha * S_i
        A_i = (x_i - mean_g x) / (std_g x + epsilon)
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The paper's tiers depend on its tasks. Here they are options, so this is not a
    reproduction. The sum of ``best_action`` is the number of right turns, so write its tiers as
    numbers of turns. Success is judged by the return without the component. A group of one
    trajectory, or of equal grades, gives 0.
    Reference: Sweet Spot Learning (SSL), our reading.
    Verified by: tests/methods/credit/test_group_rewards.py.

    Args:
        component: name of the reward component that measures progress; the default is an oracle's
            ``best_action``.
        tiers: thresholds of the component's sum over the trajectory, in reward units, in any order,
            at least one. S is the share of thresholds that the sum reaches; the default has three.
        alpha: weight of the grade S, at least 0 and below 1, so that every failure stays below
            every success. 0 rewards success alone; the default is 0.5.
        success: smallest return, without the component, that is a success, in reward units.
            The default 0.5 fits returns of 0 and 1.
        divide_by_std: true (default) divides by the sample deviation of x. False only subtracts the
            mean.
        epsilon: added to the deviation of x, which has no unit; at least 0. The default matters
            only where the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: the component is missing, or there is no tier.
    """
    if not tiers:
        raise CreditError(
            "credit 'ssl': tiers is empty; write the thresholds of the component, such as [0.5]."
        )
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    progress = trajectory_sums(reward_component(turns, "ssl", component), turns.trajectory)
    grades = np.searchsorted(
        np.sort(np.array(tiers, dtype=np.float64)), progress, side="right"
    ) / len(tiers)
    rewards = (returns - progress >= success) + alpha * grades
    advantages = centre(rewards, ids, num_groups)
    if divide_by_std:
        advantages = standardise(rewards, ids, num_groups, epsilon=epsilon)
    return Credit(advantages=broadcast_to_turns(advantages, turns))

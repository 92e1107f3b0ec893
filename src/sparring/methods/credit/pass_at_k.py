"""Credit: rewards for the best of a group only (pass@k training)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.blocks import best_two
from sparring.ops.groups import group_std_or_zero, is_varied

GROUP_RELATIVE = True


def pass_at_k(
    turns: TurnTable, *, divide_by_std: bool = False, epsilon: Annotated[float, Field(ge=0)] = 1e-6
) -> Credit:
    """Credit the best trajectory of a group with its difference to the second best.

    What: The policy gradient of the best of n returns, not of the mean; all other trajectories get
    0. n is the group's size.
    When to use: if one success in n tries is enough, to keep the policy varied.
    Mathematics:
        A_i = R_i - R_second if i is the group's best, else 0
    Without the division, the sum over the group is an unbiased gradient of
        E[max over i of R_i]
    because the best trajectory has the maximum of the others as its baseline.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: Two equal best returns give 0. So with rewards 0 and 1 only groups with exactly one
    success have a signal. A group of one gives 0 (the authors' code refuses it).
    Reference: arXiv 2503.19595; volcengine/verl core_algos.py.
    Verified by: tests/methods/credit/test_group_baselines.py,
    tests/methods/credit/test_group_bias.py.

    Args:
        divide_by_std: true divides by the group's sample deviation plus ``epsilon``, as the
            authors' code does by default. False (default) keeps the unbiased gradient.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused without ``divide_by_std``.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    best_returns, second_returns = best_two(returns, ids, num_groups)
    gap = np.where(is_varied(returns, ids, num_groups), best_returns - second_returns, 0.0)
    if divide_by_std:
        gap = gap / (group_std_or_zero(returns, ids, num_groups) + max(epsilon, 1e-300))
    advantages = np.where(returns == best_returns[ids], gap[ids], 0.0)
    return Credit(advantages=broadcast_to_turns(advantages, turns))

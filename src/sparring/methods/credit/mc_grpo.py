"""Credit: median-centred group advantages (MC-GRPO)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.blocks import lower_median
from sparring.ops.groups import is_varied, standardise

GROUP_RELATIVE = True
PRESETS = {"as_released": {"without_deviation": "amplify"}}


def mc_grpo(
    turns: TurnTable,
    *,
    without_deviation: Literal["standardise", "amplify"] = "standardise",
    epsilon: Annotated[float, Field(gt=0)] = 1e-3,
) -> Credit:
    """Compare with the group's median and scale by the median distance from it.

    What: ``grpo`` with the median in place of the mean, and the median absolute deviation (MAD) in
    place of the deviation. So one lucky rollout does not change the sign of the others. The median
    member itself (the pivot) gets 0.
    When to use: few rollouts per initial state (an odd number of them) and noisy returns.
    Mathematics:
        m = median_g R
        MAD = median_g |R - m|
        A_i = (R_i - m) / (MAD + epsilon)
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The authors' code samples G + 1 rollouts and leaves the pivot out of the loss. Here
    the pivot has advantage 0 but still counts in a mean over the batch. In groups of even size the
    median is the lower of the two middle returns, so that the pivot is a member. A group of one
    trajectory, or of equal returns, gives 0.
    Reference: MC-GRPO; code of lotusroot-kim/MC-GRPO.
    Verified by: tests/methods/credit/test_group_baselines.py.

    Args:
        without_deviation: formula for groups with MAD = 0, in which more than half of the returns
            are equal, as is usual for rewards of 0 and 1. "standardise" (default) uses (R - mean) /
            (std + 1e-6). "amplify" (preset ``as_released``) keeps the formula, which multiplies the
            minority by 1 / epsilon.
        epsilon: added to the MAD, in reward units, above 0; the default is 1e-3.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    distances = returns - lower_median(returns, ids, num_groups)[ids]
    centred = np.where(is_varied(returns, ids, num_groups)[ids], distances, 0.0)
    deviation = lower_median(np.abs(centred), ids, num_groups)
    advantages = centred / (deviation + epsilon)[ids]
    if without_deviation == "standardise":
        standard_scores = standardise(returns, ids, num_groups)
        advantages = np.where(deviation[ids] > 0.0, advantages, standard_scores)
    return Credit(advantages=broadcast_to_turns(advantages, turns))

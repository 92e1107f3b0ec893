"""Credit: difficulty-weighted group advantages (VITAL's DGRPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, group_mean, standardise

GROUP_RELATIVE = True


def dgrpo(
    turns: TurnTable,
    *,
    strength: Annotated[float, Field(ge=0)] = 1.0,
    worst: float = 0.0,
    best: float = 1.0,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Weigh group-relative advantages by how hard the task is.

    What: ``grpo`` times a weight. Groups with a lower mean return have a larger weight.
    When to use: tasks of mixed difficulty, when the hard ones should have more influence.
    Mathematics:
        p_g = (mean_g R - worst) / (best - worst), clipped to [0, 1]
        A_i = (1 + strength * (1 - p_g)) * (R_i - mean_g R) / (std_g R + epsilon)
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: Only the abstract is public, so the weight is our reading, not a reproduction. In
    zero-sum self-play the mean return of a role shows the advantage of moving first, not the
    difficulty. A group of one trajectory, or of equal returns, gives 0.
    Reference: VITAL (DGRPO), abstract.
    Verified by: tests/methods/credit/test_group_baselines.py.

    Args:
        strength: extra weight of the hardest groups, at least 0. A group with p = 0 has the weight
            1 + strength, a group with p = 1 the weight 1. With 0 this is ``grpo``; default 1.
        worst: the mean return, in reward units, that counts as p = 0; the default 0 is a failure in
            rewards of 0 and 1.
        best: the mean return, in reward units, that counts as p = 1; it must be above ``worst``.
            The default 1 is a success in rewards of 0 and 1.
        divide_by_std: true (default) divides by the group's sample deviation. False only subtracts
            the mean.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: ``best`` is not above ``worst``.
    """
    if best <= worst:
        raise CreditError(
            f"credit 'dgrpo': best {best} is not above worst {worst}; write the returns of "
            "success and failure."
        )
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    means = group_mean(returns, ids, num_groups)
    scaled_means = np.clip((means - worst) / (best - worst), 0.0, 1.0)
    relative_returns = centre(returns, ids, num_groups)
    if divide_by_std:
        relative_returns = standardise(returns, ids, num_groups, epsilon=epsilon)
    advantages = (1.0 + strength * (1.0 - scaled_means))[ids] * relative_returns
    return Credit(advantages=broadcast_to_turns(advantages, turns))

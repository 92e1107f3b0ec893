"""Credit: group advantages with a virtual best member (NGRPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, group_counts, group_mean, group_sum


def ngrpo(
    turns: TurnTable,
    *,
    best: float = 1.0,
    num_virtual: Annotated[int, Field(ge=0)] = 1,
    epsilon: Annotated[float, Field(gt=0)] = 1e-6,
) -> Credit:
    """Compare with the group plus virtual trajectories of the best return.

    What: ``grpo`` whose mean and deviation include virtual members that succeeded. So a group of
    failures still gives a gradient.
    When to use: hard tasks with many all-wrong groups and a known best return. Do not filter groups
    of equal returns before this estimator.
    Mathematics:
        A_i = (R_i - mean') / (std' + epsilon)
    mean' and std' (sample) are over the n returns and ``num_virtual`` returns of ``best``.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The advantages of a group sum to less than 0, so probabilities fall on average. For
    this reason the paper uses clip bounds of 0.16 and 0.24. A group of one trajectory is compared
    with the virtual members (the authors' code uses its raw reward). A group in which all returns
    are ``best`` gives 0. Returns above ``best`` make the virtual members bad examples.
    Reference: NGRPO (arXiv 2509.18851); code of nangongrui-ngr/NGRPO.
    Verified by: tests/methods/credit/test_group_baselines.py.

    Args:
        best: the highest return that the task can give, in reward units; it is the return of the
            virtual members. The default 1 fits rewards of 0 and 1.
        num_virtual: number of virtual members per group, at least 0. 0 is ``grpo``; the default is
            1.
        epsilon: added to the deviation, in reward units, above 0. The default matters only where
            the deviation is tiny.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    sizes = group_counts(ids, num_groups)
    centred = centre(returns, ids, num_groups)
    # difference of the virtual members from the mean of the real members
    gap = best - group_mean(returns, ids, num_groups)
    virtual_share = num_virtual / np.maximum(sizes + num_virtual, 1)
    squares = group_sum(centred * centred, ids, num_groups) + sizes * virtual_share * gap * gap
    deviation = np.sqrt(squares / np.maximum(sizes + num_virtual - 1, 1))
    advantages = (centred - (virtual_share * gap)[ids]) / (deviation + epsilon)[ids]
    return Credit(advantages=broadcast_to_turns(advantages, turns))

"""Credit: return batch normalisation (GEM's ReBN)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import role_groups
from sparring.ops.groups import discounted_returns, standardise


def rebn(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    by_role: bool = False,
    epsilon: Annotated[float, Field(ge=0)] = 1e-9,
) -> Credit:
    """Standardise the return from each turn on over all turns of the batch.

    What: The return from each turn on, minus the batch's mean, divided by the batch's deviation.
    The method needs no groups and no critic.
    When to use: one task with one role and many turns, without repeated initial states. In
    self-play with roles set ``by_role``, or use ``mars``, because the mean over both sides of a
    zero-sum game is 0.
    Mathematics:
        G[i, t] = sum over k >= t of gamma^(k-t) r[i, k]
        A[i, t] = (G[i, t] - mean G) / (std G + epsilon)
    with mean and sample deviation over all turns of the batch.
    Shapes: advantages [N].
    Pitfalls: The mean over turns gives long episodes more weight; the bias is that of ``mars``,
    divided by the deviation. Games whose rewards have different sizes share one scale, unless
    ``by_role`` separates them. Equal returns give 0.
    Reference: Liu et al., 2025 (GEM, arXiv 2510.01051).
    Verified by: tests/methods/credit/test_role_baselines.py, tests/methods/credit/test_bias.py.

    Args:
        gamma: discount per turn, in [0, 1]; 1 (default) does not discount.
        by_role: true takes the statistics per (game, role). False (default) takes them over the
            whole batch, as in the published formula, which has no roles.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny.
    """
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    one_group = np.zeros(len(returns), dtype=np.int64), 1
    groups, num_groups = role_groups(turns) if by_role else one_group
    return Credit(advantages=standardise(returns, groups, num_groups, epsilon=epsilon))

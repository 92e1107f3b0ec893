"""Credit: the length-weighted baseline (OPO)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, group_sum, trajectory_sums

GROUP_RELATIVE = True


def opo(turns: TurnTable, *, length: Literal["tokens", "turns"] = "tokens") -> Credit:
    """Compare with the group's mean return weighted by length.

    What: The baseline of least variance, if the square of a trajectory's gradient grows with its
    length.
    When to use: as ``grpo`` without the division, if lengths differ much within a group.
    Mathematics:
        b_g = sum over i of L_i R_i / sum over i of L_i
        A[i, t] = R_i - b_g
    L_i is the length of trajectory i.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The advantages of a group do not sum to 0, unless they are weighted by length. The
    baseline contains the trajectory itself and its own length, which biases the gradient by order
    1 / n. A group of one gives 0 (the released code gives its raw return), as do equal returns. A
    group without any token uses the plain mean.
    Reference: Hao et al., 2025 (arXiv 2505.23585); volcengine/verl core_algos.py.
    Verified by: tests/methods/credit/test_group_baselines.py,
    tests/methods/credit/test_group_bias.py.

    Args:
        length: the unit of L_i: the trajectory's sampled "tokens" (default), or its "turns".
    """
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    ids = groups[starts]
    counted = (
        turns.n_tokens.astype(np.float64) if length == "tokens" else np.ones(len(turns.reward))
    )
    weights = trajectory_sums(counted, turns.trajectory)
    total = group_sum(weights, ids, count)
    centred = centre(returns, ids, count)  # so that the weighted mean is exact for values near 1e6
    shift = np.divide(
        group_sum(centred * weights, ids, count), total, out=np.zeros(count), where=total > 0
    )
    return Credit(advantages=broadcast_to_turns(centred - shift[ids], turns))

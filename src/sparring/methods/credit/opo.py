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

    What: The baseline of smallest variance, if the square of a trajectory's gradient grows in
    proportion to its length.
    When to use: in place of ``grpo`` without the division, if lengths differ much within a group.
    Mathematics:
        b_g = sum over i of L_i R_i / sum over i of L_i
        A[i, t] = R_i - b_g
    L_i is the length of trajectory i.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The advantages of a group sum to 0 only if they are weighted by length. The baseline
    contains the trajectory itself and its length, which biases the gradient by order 1 / n. A group
    of one trajectory, or of equal returns, gives 0. In the authors' code a group of one gives its
    raw return. A group without any token uses the plain mean.
    Reference: Hao et al., 2025 (arXiv 2505.23585); volcengine/verl core_algos.py.
    Verified by: tests/methods/credit/test_group_baselines.py,
    tests/methods/credit/test_group_bias.py.

    Args:
        length: the unit of L_i: the trajectory's sampled "tokens" (default), or its "turns".
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    turn_lengths = (
        turns.n_tokens.astype(np.float64) if length == "tokens" else np.ones(len(turns.reward))
    )
    lengths = trajectory_sums(turn_lengths, turns.trajectory)
    totals = group_sum(lengths, ids, num_groups)
    # returns are centred first, so that the weighted mean is exact for returns near 1e6
    centred = centre(returns, ids, num_groups)
    weighted_sums = group_sum(centred * lengths, ids, num_groups)
    shift = np.divide(weighted_sums, totals, out=np.zeros(num_groups), where=totals > 0)
    return Credit(advantages=broadcast_to_turns(centred - shift[ids], turns))

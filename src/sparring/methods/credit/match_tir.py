"""Credit: the mean of a trajectory's advantage and a turn's advantage (MatchTIR)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import turn_keys
from sparring.methods.credit.grpo import grpo
from sparring.ops.groups import centre, discounted_returns, divide_by_deviation, group_ids

GROUP_RELATIVE = True


def match_tir(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9,
    turn_share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Mix the trajectory's return and the return from the turn on, each relative to the group.

    What: GRPO on the whole return, plus GRPO on the discounted return from a turn on. The second
    part compares the episodes of the group at the same turn index.
    When to use: if turns have separate rewards, as tool calls do.
    Mathematics:
        A[i, t] = (1 - turn_share) * z_g(R_i) + turn_share * z_gt(G[i, t])
        G[i, t] = sum over k >= t of gamma^(k - t) r[i, k]
        z = (x - mean) / (sample deviation + epsilon)
    g is the (group, role), and gt are the turns of g with index t.
    Shapes: advantages [N]; statistics per (group, role) and per (group, role, turn index).
    Pitfalls: Positions at one turn index can differ. A turn that only one member reached gets 0
    from the second part; in the authors' code it gets its raw value. The run's ``rewards`` define
    the rewards of turns. The paper's reward is ``reference_match``, which compares tool calls with
    a reference.
    Reference: MatchTIR (arXiv 2601.10712); code of quchangle1/MatchTIR, core_algos.py.
    Verified by: tests/methods/credit/test_judged_turns.py.

    Args:
        gamma: discount per turn of G in the second part, in [0, 1] (the paper's lambda); 1 does not
            discount. The default is 0.9. The first part is never discounted.
        turn_share: weight of the second part, in [0, 1]; the first has the rest. 0 is ``grpo``; the
            default 0.5 is the paper's.
        divide_by_std: true (default) divides both parts by their sample deviations. False leaves
            differences.
        epsilon: added to both deviations, in reward units, at least 0. The default matters only
            where a deviation is tiny. Unused without ``divide_by_std``.
    """
    credit = grpo(turns, divide_by_std=divide_by_std, epsilon=epsilon)
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    groups, num_groups = group_ids(*turn_keys(turns))
    advantages = centre(returns, groups, num_groups)
    if divide_by_std:
        advantages = divide_by_deviation(advantages, returns, groups, num_groups, epsilon=epsilon)
    return Credit(advantages=(1.0 - turn_share) * credit.advantages + turn_share * advantages)

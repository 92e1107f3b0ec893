"""Credit: a trajectory's advantage and its turn's, half each (MatchTIR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from sparring.credit.base import check
from sparring.credit.grpo import grpo
from sparring.ops.groups import centre, group_ids
from sparring.ops.returns import discounted_returns
from sparring.ops.standardise import over_deviation
from sparring.types import Credit, TurnTable


def match_tir(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9,
    turn_share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Mix how a game ended against its group with how a turn went on against the same turn of the group.

    What: GRPO on the whole return, and the same on the discounted return from a turn on, compared across the games of the
    group at the same turn index.
    When to use: where turns earn rewards of their own, as calls of tools do.
    Mathematics: A[i, t] = (1 - turn_share) * z_g(R_i) + turn_share * z_gt(G[i, t]), where G[i, t] = sum over k >= t of
    gamma^(k - t) r[i, k], g is the (group, role), gt its turns of index t, z = (x - mean) / (sample deviation + epsilon).
    Shapes: advantages [N]; statistics per (group, role) and per (group, role, turn index).
    Options: ``gamma`` (the paper's lambda), ``turn_share`` (0.5 is the paper's), ``divide_by_std`` false leaves differences.
    Pitfalls: positions at one turn index need not be alike. Where games end early few are left to compare with: a turn
    that one member alone reached gets 0 from the second part (its raw value in released code). Turns earn
    what ``rewards`` of the run say; the paper's reward, calls matched with a reference's, is ``reference_match``.
    Reference: MatchTIR (arXiv 2601.10712); code of quchangle1/MatchTIR, core_algos.py.
    Verified by: tests/credit/test_match_tir.py.

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "match_tir")
    whole = grpo(turns, state, divide_by_std=divide_by_std, epsilon=epsilon).advantages
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    places, count = group_ids(turns.group, turns.role, turns.turn_index)
    here = centre(returns, places, count)
    if divide_by_std:
        here = over_deviation(here, returns, places, count, epsilon=epsilon)
    return Credit(advantages=(1.0 - turn_share) * whole + turn_share * here, state=dict(state))

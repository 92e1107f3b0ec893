"""Credit: advantages aligned with the opponents' (Advantage Alignment)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns
from sparring.ops.groups import (
    backward_recurrence,
    discounted_returns,
    group_ids,
    group_sum,
    leave_one_out_mean,
    trajectory_starts,
)

GROUP_RELATIVE = {"baseline": {"turn"}}
PRESETS = {"as_released": {"variant": "as_released"}}


def advantage_alignment(
    turns: TurnTable,
    *,
    beta: float = 0.5,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9,
    baseline: Literal["turn", "start"] = "turn",
    variant: Literal["paper", "as_released"] = "paper",
) -> Credit:
    """Reward actions that help an opponent once the seat has gained, so that learners cooperate.

    What: The seat's advantage, plus the opponents' advantage times the seat's past advantages.
    When to use: mixed-motive games of several rounds against opponents that learn (repeated
    dilemmas, negotiation), where plain learning defects.
    Mathematics:
        A*_t = A1_t + beta (sum over k < t of gamma^(t-k) A1_k) A2_t
    A1 are the seat's advantages. A2 is the sum of the other trained seats' advantages at their
    turns t of the same episode, and 0 if no other seat has a turn t. Each seat's advantage is
        A = G_t - mean of G_t over the other trajectories of the (group, role) with a turn t
    with G_t the discounted return from turn t.
    Shapes: advantages [N].
    Pitfalls:
        - The method is for simultaneous moves. Here the t-th turns of all seats count as
          simultaneous, in any order of moves.
        - The first turn has no alignment term.
        - If the policy chooses when to stop, the mean over the trajectories that reach turn t
          depends on the trajectory's length. This is a bias; A has no such bias with ``baseline``
          "start".
        - Seats that do not learn are not in the table and have no effect on the alignment.
        - With ``baseline`` "turn", A is 0 if no other member of the group reaches the turn index.
        - With "start", a group of one trajectory gets G_t minus its return from the first turn.
        - In zero-sum games of two seats A2 is about -A1. The term then shrinks the advantages of
          the seat that is ahead and enlarges those of the other seat.
    Reference: Duque et al., 2024 (arXiv 2406.14662); baseline and defaults of
    dereckpiche/AdAlignLLM.
    Verified by: tests/methods/credit/test_advantage_alignment.py.

    Args:
        beta: weight of the alignment term, any number. 0 gives the plain advantage A1; the default
            is 0.5.
        gamma: discount per turn, in [0, 1], in the returns and in the sum over past advantages. The
            default 0.9 favours early rewards; 1 does not discount.
        baseline: what a return is compared with. "turn" (default), as in the paper: the others'
            returns from the same turn index. "start": the others' returns from their first turn.
        variant: "paper" (default) uses the equation above. "as_released" multiplies the sum by
            gamma once more, as the authors' code does.
    """
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    first_rows = trajectory_starts(turns.trajectory)
    groups, num_groups = group_ids(turns.group[first_rows], turns.role[first_rows])
    if baseline == "turn":
        turn_groups, num_turn_groups = _turn_ids(groups, first_rows, turns)
        seat_advantages = returns - leave_one_out_mean(returns, turn_groups, num_turn_groups)
    else:
        seat_advantages = returns - broadcast_to_turns(
            leave_one_out_mean(returns[first_rows], groups, num_groups), turns
        )
    turn_ids, num_turn_ids = _turn_ids(group_ids(turns.episode[first_rows])[0], first_rows, turns)
    other_sums = group_sum(seat_advantages, turn_ids, num_turn_ids)[turn_ids] - seat_advantages
    advantages = align_advantages(
        seat_advantages,
        other_sums,
        turns.trajectory,
        beta=beta,
        gamma=gamma,
        extra_discount=variant == "as_released",
    )
    return Credit(advantages=advantages)


def _turn_ids(ids: IntArray, first_rows: IntArray, turns: TurnTable) -> tuple[IntArray, int]:
    """Return (id of each turn's (trajectory's id, turn index) [N], number of ids)."""
    row_ids = np.repeat(ids, np.diff(np.append(first_rows, len(turns.trajectory))))
    return group_ids(row_ids * (int(turns.turn_index.max(initial=0)) + 1) + turns.turn_index)


def align_advantages(
    advantages: FloatArray,
    other_sums: FloatArray,
    trajectory: IntArray,
    *,
    beta: float,
    gamma: float,
    extra_discount: bool = False,
) -> FloatArray:
    """Return A*_t, the seat's advantages aligned with those of the others, [N].

        A*_t = A_t + beta * (sum over k < t of gamma^(t-k) A_k) * other_sums_t

    Args:
        advantages: the seat's advantages A, [N].
        other_sums: sum of the other seats' advantages at the same time, [N].
        trajectory: trajectory of each turn, [N], non-decreasing.
        beta: weight of the alignment.
        gamma: discount per turn.
        extra_discount: whether to multiply the sum once more by gamma.
    """
    # sum over k <= t of gamma^(t-k) A_k
    discounted_sums = backward_recurrence(advantages[::-1], gamma, trajectory[::-1])[::-1]
    past_sums = discounted_sums - advantages
    return advantages + beta * (gamma if extra_discount else 1.0) * past_sums * other_sums

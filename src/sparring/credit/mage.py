"""Credit: cross-episode differential returns (MAGE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.credit.anchors import anchor_groups
from sparring.credit.base import check, spread, trajectory_returns
from sparring.ops.groups import centre, group_ids
from sparring.ops.returns import backward_recurrence, discounted_returns, next_values
from sparring.types import Credit, FloatArray, IntArray, TurnTable


def mage(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    attempts: Annotated[int, Field(ge=1)] = 3,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95,
    gamma_episode: Annotated[float, Field(ge=0, le=1)] = 0.6,
    step_weight: float = 1.0,
    anchor: Literal["view", "state_key"] = "view",
    by_attempt: bool = False,
) -> Credit:
    """Credit an attempt with how much better it went than the attempt before.

    What later attempts gained from it counts too.

    What: Episodes of one initial state are taken as successive attempts. Each is rewarded with the
    difference of its return to that of the attempt before. Then the two levels of GiGPO compare
    attempts of a group, and turns that met the same view in any attempt.
    When to use: when attempts learn from earlier ones (reflections, memory in context). Otherwise
    use ``gigpo``.
    Mathematics:
        r_hat(n) = R(n) - R(n-1), R(0) = 0
    paid at the last turn of attempt n.
        G_t = r_t + gamma G_{t+1}
    within an attempt, and
        r_hat(n) + gamma_episode G_1(n+1)
    at the last turn of an attempt that has a successor.
        A_E = r_hat - mean of r_hat over the (group, role)
        A_S = G_t - mean of G over the turns of the (group, role) that met the same anchor
        A = A_E + step_weight A_S
    Shapes: advantages [N].
    Pitfalls: Here nothing is carried from one episode to the next, unless the game or agent does
    it. Without that, R(n-1) is only noise in attempt n. And an attempt with a successor, whose
    r_hat contains -R(n), loses the share gamma_episode of its step credit: a bias without a
    benefit. Means over all attempts mix first attempts, which start from 0, with later ones. The
    published normalisation per agent has the opponent's name in the anchor. Groups here have one
    set of opponents, so the role is enough. Reflections get no credit, because there are none. A
    group of one gives 0. Statistics are over episodes, not over turns.
    Reference: MAGE (arXiv 2603.03680) and code of Lu-Yang666/MAGE; Feng et al., 2025 (GiGPO, arXiv
    2505.10978).
    Verified by: tests/credit/test_mage.py.

    Args:
        attempts: length of a sequence of attempts, at least 1. A seat's episodes of a group in one
            role, in order of their ids, are cut into sequences of this many (the last may be
            shorter). 1 leaves plain returns; the default is 3.
        gamma: discount per turn within an attempt, in [0, 1]; 1 does not discount. The default is
            0.95.
        gamma_episode: factor on what later attempts gain, per attempt, in [0, 1]; 0 ignores later
            attempts. The default is 0.6.
        step_weight: weight of the turn-level term A_S, any number. 0 leaves A_E alone; 1 (default)
            counts both equally.
        anchor: which turns are compared: those with the same "view" (default), or those with the
            same information state ("state_key").
        by_attempt: true compares only attempts with the same number in their sequences, at both
            levels. False (default) compares all attempts.

    Raises:
        CreditError: a reward is not finite, or the anchor's column is missing.
    """
    check(turns, "mage")
    returns, starts = trajectory_returns(turns)
    groups, count = group_ids(turns.group[starts], turns.role[starts])
    sequence, number, order = _attempts(
        turns.episode[starts], group_ids(groups, turns.seat[starts])[0], attempts
    )
    lengths = np.diff(np.append(starts, len(turns.reward)))
    difference = np.empty(len(returns))
    difference[order] = returns[order] - _previous(returns[order], sequence[order])
    steps = _step_returns(difference, lengths, (sequence, order), turns, gamma, gamma_episode)
    met, num_met = anchor_groups(turns, "mage", anchor)
    compared, num_compared = groups, count
    if by_attempt:
        met, num_met = group_ids(met, np.repeat(number, lengths))
        compared, num_compared = group_ids(compared, number)
    episode = spread(centre(difference, compared, num_compared), turns)
    return Credit(advantages=episode + step_weight * centre(steps, met, num_met), state=dict(state))


def _attempts(
    episodes: IntArray, groups: IntArray, attempts: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return each trajectory's sequence and number in it, from 0.

    Also return the order that puts sequences together, attempts in order.
    """
    order = np.lexsort((episodes, groups))
    ordered = groups[order]
    begin = np.flatnonzero(
        np.append(np.ones(min(len(order), 1), dtype=bool), np.diff(ordered) != 0)
    )
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
    sequence, _ = group_ids(groups, rank // attempts)
    return sequence, rank % attempts, order


def _previous(values: FloatArray, sequence: IntArray) -> FloatArray:
    """Return each value's predecessor in its sequence, 0 for the first."""
    return next_values(values[::-1], sequence[::-1])[::-1]


def _step_returns(
    difference: FloatArray,
    lengths: IntArray,
    columns: tuple[IntArray, IntArray],
    turns: TurnTable,
    gamma: float,
    gamma_episode: float,
) -> FloatArray:
    """Return the discounted differential return from every turn on, [N].

    It goes on through the later attempts of its sequence.
    """
    sequence, order = columns
    # from an attempt's last turn back to its first
    fade = np.power(gamma, lengths - 1, dtype=np.float64)
    first = backward_recurrence(
        (fade * difference)[order], (fade * gamma_episode)[order], sequence[order]
    )
    paid = np.empty(len(difference))
    paid[order] = difference[order] + gamma_episode * next_values(first, sequence[order])
    reward = np.zeros(len(turns.reward))
    reward[np.cumsum(lengths) - 1] = paid
    return discounted_returns(reward, turns.trajectory, gamma=gamma)

"""Credit: turn-level returns with agent-specific normalisation (MARS / MARSHAL)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, role_groups
from sparring.ops.groups import centre, discounted_returns, group_ids, group_std, trajectory_starts

PRESETS = {
    "as_released": {"variant": "as_released"},
    "no_turn_level": {"turn_level": False},
    "no_agent_specific": {"by_role": False},
}


def mars(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    scale: Literal["none", "std"] = "none",
    turn_level: bool = True,
    by_role: bool = True,
    variant: Literal["paper", "as_released"] = "paper",
) -> Credit:
    """Compare the return from a turn on with the mean over the turns of the same role and game.

    What: Sum the rewards first, then normalise. The rewards from a turn on are compared with the
    mean of the turn's role.
    When to use: the default for self-play, without repeated initial states, for roles with
    different prospects, and for games with rewards before the end.
    Mathematics:
        R[i, p, k] = sum over k' >= k of gamma^(k' - k) r[i, p, k']
        A[i, p, k] = R[i, p, k] - mean of all R over turns of the same game and role p
    Shapes: advantages [N] ("paper"), or one per sampled token ("as_released").
    Pitfalls:
        - The mean over turns gives long episodes more weight.
        - The variant "as_released" is for comparison only: advantages depend on the number of later
          tokens, and games are mixed. The code subtracts the mean per player from turn rewards,
          whitens token rewards over the batch, and sums them backwards over tokens. Then the code
          subtracts, per player, the mean of the distinct values over all games, and whitens again.
        - The authors' code pads rows to a fixed length, so the 0 of the padding is one of the
          distinct values. Here this 0 always counts, as if no row filled the whole length.
        - With ``gamma`` below 1 the authors' code also discounts over prompt tokens between a
          seat's turns. This variant does not.
    Reference: arXiv 2510.15414; code of thu-nics/MARSHAL for the variant.
    Verified by: tests/methods/credit/test_mars.py, tests/methods/credit/test_bias.py.

    Args:
        gamma: discount in [0, 1], per turn ("paper") or per token ("as_released"); 1 (default) does
            not discount.
        scale: "none" (default) only subtracts the mean. "std" also divides by the sample deviation
            of the same samples. Unused with ``variant`` "as_released".
        turn_level: true (default) judges each turn by its own return. False (preset
            ``no_turn_level``, an ablation of the paper) gives every turn its trajectory's whole
            (discounted) return, minus the mean over trajectories. Unused with ``variant``
            "as_released".
        by_role: true (default) takes the mean per role of a game. False (preset
            ``no_agent_specific``, the paper's other ablation) takes it over all roles of a game.
            Unused with ``variant`` "as_released".
        variant: "paper" (default) uses the equations above. "as_released" follows the authors'
            code, whose steps are under Pitfalls.
    """
    if variant == "as_released":
        return Credit(advantages=_as_released(turns, gamma), level="token")
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    groups, num_groups = role_groups(turns) if by_role else group_ids(turns.game)
    if turn_level:
        advantages, baselines = _normalise(returns, groups, num_groups, scale)
    else:
        first_rows = trajectory_starts(turns.trajectory)
        columns = _normalise(returns[first_rows], groups[first_rows], num_groups, scale)
        advantages, baselines = (broadcast_to_turns(column, turns) for column in columns)
    return Credit(advantages=advantages, baselines=baselines)


def _normalise(
    returns: FloatArray, groups: IntArray, num_groups: int, scale: Literal["none", "std"]
) -> tuple[FloatArray, FloatArray]:
    """Return (returns minus their group's mean, scaled by ``scale``, and the means), [N] each."""
    centred = centre(returns, groups, num_groups)
    baselines = returns - centred
    if scale == "std":
        centred = centred / (group_std(returns, groups, num_groups, ddof=1) + 1e-6)[groups]
    return centred, baselines


def _as_released(turns: TurnTable, gamma: float) -> FloatArray:
    seats, num_seats = group_ids(turns.game, turns.seat)
    turn_reward = centre(turns.reward, seats, num_seats)
    last_tokens = np.cumsum(turns.n_tokens) - 1
    token_reward = np.zeros(int(turns.n_tokens.sum()))
    has_tokens = turns.n_tokens > 0
    token_reward[last_tokens[has_tokens]] = turn_reward[has_tokens]
    token_trajectory = np.repeat(turns.trajectory, turns.n_tokens)
    returns = discounted_returns(_whiten(token_reward), token_trajectory, gamma=gamma)
    returns = _subtract_distinct_mean(returns, np.repeat(turns.seat, turns.n_tokens))
    return _whiten(returns)


def _whiten(values: FloatArray) -> FloatArray:
    """Return values with mean 0 and sample variance 1 (epsilon 1e-8 under the root)."""
    if len(values) < 2:
        return np.zeros_like(values)
    white_values: FloatArray = (values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)
    return white_values


def _subtract_distinct_mean(values: FloatArray, seats: IntArray) -> FloatArray:
    """Return values minus, per seat, the mean of their distinct values and of the padding's 0.

    Values within rounding count as one, so that the order of summation does not matter.
    """
    result = np.empty_like(values)
    for seat in np.unique(seats):
        mask = seats == seat
        sorted_values = np.sort(np.append(values[mask], 0.0))
        tolerance = 1e-9 * max(1.0, abs(sorted_values[0]), abs(sorted_values[-1]))
        result[mask] = (
            values[mask] - sorted_values[np.append(True, np.diff(sorted_values) > tolerance)].mean()
        )
    return result

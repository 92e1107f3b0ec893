"""Process reward: potential differences of the oracle's value of the state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.rewards.base import next_turns
from sparring.types import Episode, Turn

NEEDS = {"verdicts"}


def potential(episode: Episode, *, gamma: Annotated[float, Field(ge=0, le=1)] = 1.0) -> tuple[float | None, ...]:
    """How much better the seat's prospects are at its next turn than at this one: shaping that changes no optimal policy.

    What: the game's return spread over the turns at which it was won or lost.
    When to use: to learn faster from the game's own outcome, without paying for anything else: outcome_weight stays 1.
    Mathematics: r_t = gamma * Phi(s_{t+1}) - Phi(s_t) over the seat's own turns, Phi(s) = max_a Q(s, a) the oracle's value of the
    state to the seat that acts, Phi(end) = 0. Sums telescope: sum_t gamma^t r_t = -Phi(s_0) whatever was played, so that policies
    keep their order, and with it every best response and equilibrium.
    Shapes: one number per turn; None where the oracle abstained at the turn or at the seat's next one.
    Options: ``gamma`` must be that of the credit estimator. ``weight`` of the reward scales Phi and keeps the invariance.
    Pitfalls: invariance needs every turn judged, returns to go (credit ``vpr`` looks at one turn, and is not invariant), and the
    reward whole: set ``reorder_outcomes``, for the bound on shaping scales each game by itself. Without abstentions an oracle may be
    wrong at no cost but speed. The reward holds what the others did between the turns as well. With outcome_weight 0 nothing is
    left to optimise. At the last turn it is -Phi, next to the game's payoff: with an exact oracle that plays as the others do, the
    sum of both has mean zero for best actions.
    Reference: Ng, Harada, Russell, 1999; Devlin, Kudenko, 2011, for several agents.
    Verified by: tests/rewards/test_potential.py.
    """
    return tuple(_difference(turn, later, gamma) for turn, later in zip(episode.turns, next_turns(episode), strict=True))


def _difference(turn: Turn, later: Turn | None, gamma: float) -> float | None:
    """Return the reward of a turn that is followed by another one of the same seat, or by none."""
    if turn.verdict is None:
        return None
    now = max(turn.verdict.values)
    if later is None:
        return -now
    return None if later.verdict is None else gamma * max(later.verdict.values) - now

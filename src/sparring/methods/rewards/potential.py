"""Process reward: potential differences of the oracle's value of the state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.records import Episode, Turn
from sparring.methods.rewards.base import next_turns

NEEDS = {"verdicts"}


def potential(
    episode: Episode, *, gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
) -> tuple[float | None, ...]:
    """How much better the seat's prospects are at its next turn than at this one.

    Shaping that changes no optimal policy.

    What: the game's return, spread over the turns at which it was won or lost.
    When to use: to learn faster from the game's own outcome, without paying for anything else;
    outcome_weight stays 1.
    Mathematics:
        r_t = gamma * Phi(s_{t+1}) - Phi(s_t)
        Phi(s) = max_a Q(s, a)
        Phi(end) = 0
    over the seat's own turns. Phi is the oracle's value of the state to the seat that acts. Sums
    telescope:
        sum_t gamma^t r_t = -Phi(s_0)
    whatever was played. So policies keep their order, and with it every best response and
    equilibrium.
    Shapes: one number per turn; None where the oracle abstained at the turn or at the seat's next
    one.
    Pitfalls: invariance needs that every turn is judged, and that credit works with returns to go
    (``vpr`` looks at one turn, and is not invariant). It also needs the whole reward: set
    ``reorder_outcomes``, because the bound on shaping scales each game by itself. The ``weight`` of
    the reward scales Phi and keeps the invariance. If the oracle never abstains, its errors cost
    only speed. The reward also contains what the others did between the turns. With outcome_weight
    0 nothing is left to optimise. At the last turn it is -Phi, next to the game's payoff: with an
    exact oracle that plays as the others do, the sum of both has mean zero for best actions.
    Reference: Ng, Harada, Russell, 1999; Devlin, Kudenko, 2011, for several agents.
    Verified by: tests/methods/rewards/test_potential.py.

    Args:
        gamma: discount per turn of the seat, in [0, 1]. It must be that of the credit estimator.
            The default 1 does not discount.
    """
    return tuple(
        _difference(turn, later, gamma)
        for turn, later in zip(episode.turns, next_turns(episode), strict=True)
    )


def _difference(turn: Turn, later: Turn | None, gamma: float) -> float | None:
    """Return the reward of a turn that is followed by another one of the same seat, or by none."""
    if turn.verdict is None:
        return None
    now = max(turn.verdict.values)
    if later is None:
        return -now
    return None if later.verdict is None else gamma * max(later.verdict.values) - now

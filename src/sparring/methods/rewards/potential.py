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
    """Pay the increase of the state's value from this turn to the seat's next turn.

    What: shaping that preserves optimal policies: the game's return, assigned to the turns that won
    or lost it.
    When to use: to learn faster from the game's outcome alone; outcome_weight stays 1.
    Mathematics:
        r_t = gamma * Phi(s_{t+1}) - Phi(s_t)
        Phi(s) = max_a Q(s, a)
        Phi(end) = 0
    over the seat's turns. Phi is the oracle's value of the state for the acting seat. Sums
    telescope:
        sum_t gamma^t r_t = -Phi(s_0)
    for every episode. So best responses and equilibria do not change.
    Shapes: one number per turn; None if the oracle abstained at the turn or the seat's next turn.
    Pitfalls:
        - Invariance requires verdicts on every turn, and credit from returns to go (``vpr`` reads
          one turn, and is not invariant).
        - Invariance also requires the unscaled reward: set ``reorder_outcomes``, because the bound
          on shaping scales each episode separately. The reward's ``weight`` scales Phi and keeps
          the invariance.
        - If the oracle never abstains, its errors cost only speed.
        - The reward includes the effect of the others' turns in between.
        - With outcome_weight 0 the objective is constant.
        - At the last turn the reward is -Phi, in addition to the game's payoff. For best actions
          the mean of their sum is 0 if the oracle is exact for the others' real policies.
    Reference: Ng, Harada, Russell, 1999; Devlin, Kudenko, 2011, for several agents.
    Verified by: tests/methods/rewards/test_potential.py.

    Args:
        gamma: discount per turn of the seat, in [0, 1], equal to that of the credit estimator.
            The default 1 does not discount.
    """
    return tuple(
        _difference(turn, next_turn, gamma)
        for turn, next_turn in zip(episode.turns, next_turns(episode), strict=True)
    )


def _difference(turn: Turn, next_turn: Turn | None, gamma: float) -> float | None:
    if turn.verdict is None:
        return None
    value = max(turn.verdict.values)
    if next_turn is None:
        return -value
    return None if next_turn.verdict is None else gamma * max(next_turn.verdict.values) - value

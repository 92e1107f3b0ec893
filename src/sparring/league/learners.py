"""Several policies that learn in one league: who learns from which initial state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparring.league.matchmakers.base import drawn
from sparring.refs import LEARNER, PlayerRef
from sparring.registry import Bound

TURN = (5**0.5 - 1) / 2  # of a circle, from one step to the next: no learner is left out for long


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueLearner:
    """A policy that learns in a league.

    Args:
        policy: its name.
        matchmaker: fills the seats of the states from which it learns.
        share: of the initial states, relative to the others'.
    """

    policy: str
    matchmaker: Bound
    share: float = 1.0

    @property
    def player(self) -> PlayerRef:
        """It, as a player."""
        return LEARNER.of(self.policy)


def asked(
    learners: Sequence[LeagueLearner], step: int, group: int, groups: int, live: str = ""
) -> LeagueLearner:
    """Return who learns from an initial state.

    The states of a step are a circle, cut by the shares, which turns from step to step:

        position = (group + 1/2) / groups + step * (sqrt(5) - 1) / 2   modulo 1

    So each step has of every learner its share of states, to the next whole number.

    Args:
        learners: of the league.
        step: steps done.
        group: number of the state in its step.
        groups: how many the step has.
        live: the policy that alone learns now; empty: all do.
    """
    for one in learners:
        if one.policy == live:
            return one
    position = ((group + 0.5) / groups + step * TURN) % 1.0
    return drawn(learners, [one.share for one in learners], position)

"""What a game must offer to be played by the loop of ``frame.py``: a world.

A world has sides 0 .. n-1 (roles or teams). A policy is one side's whole way of playing, in the
world's own type; a profile is one policy per side. Values are exact, nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from sparring.core.records import FloatArray
from sparring.core.rng import Stream

P = TypeVar("P")
Start = Literal["uniform", "random", "pure", "first"]
"""uniform: all actions alike; random: mixed as drawn from the stream; pure: one action as drawn;
first: always the first action."""

Against = Sequence[tuple[Sequence[P], float]]
"""Whom a side is trained against: (policies of the other sides in order of sides, weight).

The weights sum to 1; one entry is drawn once per play. For two sides: [((policy,), weight), ...].
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Oracle:
    """How a side answers those it is trained against.

    Args:
        kind: "exact" (a best response) or "improve" (steps of improvement, as a budget of RL).
        steps: of improvement; an exact best response has none.
        rate: length of a step of improvement.
        warm: whether improvement goes on from the side's live policy, or begins afresh.
    """

    kind: Literal["exact", "improve"] = "exact"
    steps: int = 0
    rate: float = 0.0
    warm: bool = False


class World(Protocol[P]):
    """A game with policies as tables.

    Attributes:
        name: of the game.
        sides: how many there are.
        symmetric: two sides that may share one population: what one plays the other can play.
    """

    @property
    def name(self) -> str:
        """The name of the game."""

    @property
    def sides(self) -> int:
        """The number of sides."""

    @property
    def symmetric(self) -> bool:
        """Whether two sides may share one population."""

    def start(self, side: int, kind: Start, stream: Stream) -> P:
        """Return a side's first policy.

        Args:
            side: whose.
            kind: see ``Start``.
            stream: of the draws of a random one.
        """
        ...

    def payoffs(self, profile: Sequence[P]) -> FloatArray:
        """Return the expected return of every side, [sides], in the environment's units.

        Args:
            profile: one policy per side.
        """
        ...

    def wins(self, profile: Sequence[P]) -> FloatArray:
        """Return the probability that each side wins, [sides]; a draw counts half.

        Args:
            profile: one policy per side.
        """
        ...

    def respond(
        self,
        side: int,
        against: Against[P],
        oracle: Oracle,
        *,
        start: P,
        self_share: float = 0.0,
    ) -> P:
        """Return a side's answer.

        Args:
            side: who answers.
            against: the others.
            oracle: how.
            start: where improvement begins; an exact best response does not use it.
            self_share: share of the plays against the learner's own present policy, which moves
                with it; symmetric worlds alone.
        """
        ...

    def mix(self, side: int, policies: Sequence[P], weights: FloatArray) -> P:
        """Return the policy that plays as one of these drawn once per play.

        Args:
            side: whose.
            policies: K of them.
            weights: probabilities, [K].
        """
        ...

    def gap(self, profile: Sequence[P]) -> float:
        """Return NashConv: what the sides would gain, together, by a best response each.

        Args:
            profile: one policy per side.
        """
        ...

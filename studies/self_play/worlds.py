"""The interface of games for the loop of ``frame.py``: a world.

A world has sides 0 .. n-1 (roles or teams). A policy is the complete policy of one side, in a type
of the world; a profile is one policy per side. All values are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from sparring.core.records import FloatArray
from sparring.core.rng import Stream

P = TypeVar("P")
Start = Literal["uniform", "random", "pure", "first"]
"""uniform: equal probabilities; random: random probabilities; pure: one random action with
probability 1; first: always the first action."""

Opponents = Sequence[tuple[Sequence[P], float]]
"""A mixture of opponents: (policies of the other sides in order of sides, weight).

The weights sum to 1. One entry is drawn per episode. For two sides: [((policy,), weight), ...].
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Oracle:
    """How the response to a mixture of opponents is computed.

    Args:
        kind: "exact" (a best response) or "improve" (steps of improvement, like RL with a budget).
        steps: number of steps of improvement; 0 for a best response.
        rate: length of a step of improvement.
        warm: whether improvement continues from the side's live policy, or starts fresh.
    """

    kind: Literal["exact", "improve"] = "exact"
    steps: int = 0
    rate: float = 0.0
    warm: bool = False


class World(Protocol[P]):
    """A game with policies as tables.

    Attributes:
        name: name of the game.
        sides: number of sides.
        symmetric: whether the two sides may share one population, because each can play the
            policies of the other.
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
        """Return a side's initial policy.

        Args:
            side: index of the side.
            kind: see ``Start``.
            stream: stream of the random draws.
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
        opponents: Opponents[P],
        oracle: Oracle,
        *,
        start: P,
        self_share: float = 0.0,
    ) -> P:
        """Return a side's response to a mixture of opponents.

        Args:
            side: index of the side.
            opponents: the mixture of opponents.
            oracle: how the response is computed.
            start: initial policy of the improvement; a best response does not use it.
            self_share: share of the episodes against the learner's present policy, which changes
                during training; only for symmetric worlds.
        """
        ...

    def mix(self, side: int, policies: Sequence[P], weights: FloatArray) -> P:
        """Return a policy equivalent to drawing one of these policies once per episode.

        Args:
            side: index of the side.
            policies: policies of the side, K of them.
            weights: probabilities, [K].
        """
        ...

    def gap(self, profile: Sequence[P]) -> float:
        """Return NashConv: the sum over sides of the gain of a best response.

        Args:
            profile: one policy per side.
        """
        ...

"""A world in which a member has a policy for each seat, and plays every seat equally often.

This makes games with different seats symmetric, as meta-solvers of one population require.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from studies.self_play.worlds import Opponents, Oracle, P, Start, World

Pair = tuple[P, P]


class BothSeats(World[Pair[P]]):
    """The symmetric form of a world of two sides.

    Args:
        world: the world whose sides are the seats.
    """

    sides, symmetric = 2, True

    def __init__(self, world: World[P]) -> None:
        self.world = world

    @property
    def name(self) -> str:
        """The name of the game."""
        return self.world.name

    def start(self, side: int, kind: Start, stream: Stream) -> Pair[P]:
        """Return an initial policy for each seat."""
        return self.world.start(0, kind, stream), self.world.start(1, kind, stream)

    def payoffs(self, profile: Sequence[Pair[P]]) -> FloatArray:
        """Return the mean over both seatings, [2]."""
        return self._seated(self.world.payoffs, profile)

    def wins(self, profile: Sequence[Pair[P]]) -> FloatArray:
        """Return the mean over both seatings, [2]."""
        return self._seated(self.world.wins, profile)

    def respond(
        self,
        side: int,
        opponents: Opponents[Pair[P]],
        oracle: Oracle,
        *,
        start: Pair[P],
        self_share: float = 0.0,
    ) -> Pair[P]:
        """Return a response for each seat; with ``self_share``, ``start`` is also an opponent."""
        others = [((other,), (1 - self_share) * weight) for (other,), weight in opponents]
        if self_share:
            others.append(((start,), self_share))

        def response(seat: int) -> P:
            seat_opponents = [((other[1 - seat],), weight) for (other,), weight in others]
            return self.world.respond(seat, seat_opponents, oracle, start=start[seat])

        return response(0), response(1)

    def mix(self, side: int, policies: Sequence[Pair[P]], weights: FloatArray) -> Pair[P]:
        """Return the mixture for each seat."""
        first, second = (
            self.world.mix(seat, [policy[seat] for policy in policies], weights) for seat in (0, 1)
        )
        return first, second

    def gap(self, profile: Sequence[Pair[P]]) -> float:
        """Return the mean over both seatings."""
        return sum(self.world.gap(seating) for seating in _seatings(profile)) / 2

    def _seated(
        self, measure: Callable[[Sequence[P]], FloatArray], profile: Sequence[Pair[P]]
    ) -> FloatArray:
        """Return a figure of both members, as the mean over both seatings."""
        first, other = (measure(seating) for seating in _seatings(profile))
        return np.asarray((first + other[::-1]) / 2)


def _seatings(profile: Sequence[Pair[P]]) -> tuple[list[P], list[P]]:
    """Return the seats' policies with the first member in seat 0, and in seat 1."""
    first, second = profile
    return [first[0], second[1]], [second[0], first[1]]

"""Plain self-play: the learner sits in every seat."""

from __future__ import annotations

from sparring.league.matchmakers.base import LEARNER, MatchRequest, Seating


def mirror(request: MatchRequest) -> Seating:
    """Seat the learner everywhere, and train on every seat."""
    return Seating(seats=(LEARNER,) * request.num_seats, trained=(True,) * request.num_seats)

"""Plain self-play: the learner sits in every seat."""

from __future__ import annotations

from sparring.league.matchmakers.base import LEARNER, MatchRequest, Seating


def mirror(request: MatchRequest) -> Seating:
    """Self-play: the learner sits in every seat and is trained on all of them."""
    return Seating(seats=(LEARNER,) * request.num_seats, trained=(True,) * request.num_seats)

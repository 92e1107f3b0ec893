"""Plain self-play: the learner sits in every seat."""

from __future__ import annotations

from sparring.league.matchmakers.base import MatchRequest, Seating, self_play


def mirror(request: MatchRequest) -> Seating:
    """Self-play: the learner sits in every seat and is trained in all of them."""
    return self_play(request)

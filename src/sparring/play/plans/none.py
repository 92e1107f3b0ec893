"""Plan: none; every game of a group begins at the start."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedGame


def none(left: int, games: Sequence[PlannedGame], stream: Stream) -> list[Origin]:
    """Play every game of a group from the start to its end.

    What: ``rollout.group_size`` games of one start, each on its own.
    When to use: the default; a group's games are then a fair sample of play, as most estimators
    take them to be.
    Mathematics: none.
    Pitfalls: the games of a group meet by chance only, and seldom after the first turns where there
    is much to choose from.
    Reference: none.
    Verified by: tests/play/plans/test_play_planned.py.
    """
    return [FRESH] * left

"""Plan: none; every game of a group begins at the initial state."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedGame


def none(num_left: int, games: Sequence[PlannedGame], stream: Stream) -> list[Origin]:
    """Play every game of a group from the initial state to its end.

    What: ``rollout.group_size`` independent games of one initial state.
    When to use: the default; the games of a group are independent samples, as most estimators
    assume.
    Mathematics: none.
    Pitfalls: the games of a group share states only by chance, and seldom after the first turns
    if there are many actions.
    Reference: none.
    Verified by: tests/play/plans/test_play_planned.py.
    """
    return [FRESH] * num_left

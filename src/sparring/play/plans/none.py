"""Plan: none; every episode of a group begins at the initial state."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedEpisode


def none(num_left: int, episodes: Sequence[PlannedEpisode], stream: Stream) -> list[Origin]:
    """Play every episode of a group from the initial state to its end.

    What: ``rollout.group_size`` independent episodes of one initial state.
    When to use: the default; the episodes of a group are independent samples, as most estimators
    assume.
    Mathematics: none.
    Pitfalls: the episodes of a group share states only by chance, and seldom after the first turns
    if there are many actions.
    Reference: none.
    Verified by: tests/play/plans/test_play_planned.py.
    """
    return [FRESH] * num_left

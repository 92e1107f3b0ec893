"""Curriculum: games by weight, initial states uniformly."""

from __future__ import annotations

import numpy as np

from sparring.core.records import IntArray
from sparring.methods.selection.curricula.base import CurriculumRequest, pick_by_weight


def by_weight(request: CurriculumRequest) -> IntArray:
    """Draw each group's game by the configured weights, and its initial state uniformly.

    What: no curriculum; earlier results have no effect.
    When to use: the default.
    Pitfalls: solved or hopeless initial states are played as often as informative ones.
    Reference: none.
    Verified by: tests/methods/selection/curricula/test_curricula.py.
    """
    shares = [
        arm.weight / sum(other.game == arm.game for other in request.arms) for arm in request.arms
    ]
    draws = [request.stream.child(group).uniform(0) for group in range(request.num_groups)]
    return np.array([pick_by_weight(request.arms, shares, draw) for draw in draws], dtype=np.int64)

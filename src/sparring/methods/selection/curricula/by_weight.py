"""Curriculum: every game by its weight, every start alike."""

from __future__ import annotations

import numpy as np

from sparring.core.records import IntArray
from sparring.methods.selection.curricula.base import CurriculumRequest, pick_by_weight


def by_weight(request: CurriculumRequest) -> IntArray:
    """Draw each group's game by the weights in the configuration, and its start uniformly.

    What: no curriculum; what came of earlier games changes nothing.
    When to use: the default.
    Pitfalls: starts that are solved, or hopeless, are played as often as those there is something
    to learn from.
    Reference: none.
    Verified by: tests/methods/selection/curricula/test_curricula.py.
    """
    share = [
        arm.weight / sum(other.game == arm.game for other in request.arms) for arm in request.arms
    ]
    draws = [request.stream.child(group).uniform(0) for group in range(request.groups)]
    return np.array([pick_by_weight(request.arms, share, draw) for draw in draws], dtype=np.int64)

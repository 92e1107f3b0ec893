"""What curricula share: shares of arms, success rates, draws by weight. A arms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.selection.curricula.base import Arm, CurriculumRequest, Record, pick_by_weight
from sparring.types import FloatArray, IntArray


def arm_shares(arms: Sequence[Arm]) -> FloatArray:
    """Return each arm's share by its game's weight, the starts of a game alike, [A].

    Sums to one.
    """
    weights = np.array([arm.weight / sum(other.game == arm.game for other in arms) for arm in arms])
    shares: FloatArray = weights / weights.sum()
    return shares


def success_rate(records: Sequence[Record]) -> float:
    """Return the share of the trajectories of these records that succeeded.

    Not a number without any.
    """
    size = sum(record.size for record in records)
    return sum(record.successes for record in records) / size if size else float("nan")


def draw_arms(request: CurriculumRequest, weights: FloatArray, counter: int = 0) -> IntArray:
    """Return an arm for each group, drawn by weight.

    It is draw number ``counter`` of the group's stream.
    """
    draws = [request.stream.child(group).uniform(counter) for group in range(request.groups)]
    return np.array(
        [pick_by_weight(request.arms, weights.tolist(), draw) for draw in draws], dtype=np.int64
    )

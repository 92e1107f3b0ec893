"""Selection: keep or drop groups of equal returns."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import trajectories
from sparring.ops.groups import is_varied


def equal_groups(
    turns: TurnTable, stream: Stream, *, policy: Literal["keep", "drop"] = "keep"
) -> BoolArray:
    """Train on every turn, or drop groups of equal returns, which have no group-relative signal.

    What: a group has the trajectories of one initial state and role. In a group of equal returns
    all group-relative advantages are 0.
    When to use: ``keep`` is right for mars, rae, gae, outcome; ``drop`` is DAPO's filter. With
    ``drop`` set ``rollout.refills`` to replace the dropped episodes.
    Shapes: mask [N].
    Pitfalls:
        - Under ``drop`` a batch can shrink; see the metric ``kept_share``.
        - Groups of one trajectory are kept.
        - Returns count as equal up to rounding within the group. Other games have no effect.
        - DAPO drops groups of accuracy 0 or 1; this rule drops all groups of equal returns.
    Reference: Yu et al., 2025 (DAPO).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        policy: treatment of groups of equal returns: "keep" (default), or "drop" before credit.

    Raises:
        CreditError: under ``drop``, a reward is not finite.
    """
    if policy == "keep" or not len(turns.reward):
        return np.ones(len(turns.reward), dtype=bool)
    data = trajectories(turns, "equal_groups")
    is_kept = is_varied(data.returns, data.groups, data.num_groups) | (data.group_sizes == 1)
    return data.row_mask(is_kept[data.groups])

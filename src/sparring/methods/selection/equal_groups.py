"""Selection: what happens to a group whose rewards are all equal."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import trajectories
from sparring.ops.groups import varied


def equal_groups(
    turns: TurnTable, stream: Stream, *, policy: Literal["keep", "drop"] = "keep"
) -> BoolArray:
    """Train on every turn, or leave out groups of equal returns, from which nothing is learnt.

    Returns which rows [N] are trained on.

    What: groups are the trajectories of one start and role. In a group of equal returns a
    group-relative estimator finds nothing to learn.
    When to use: ``keep`` is right for mars, rae, gae, outcome; ``drop`` is DAPO's filter. With
    ``drop`` set ``rollout.refills``, and more games are played in place of the dropped ones.
    Pitfalls: under ``drop`` a batch can shrink; the metric ``kept_share`` shows by how much. Groups
    of one are kept. Equal means equal up to rounding, within the group: the scale of other games in
    the batch does not count. DAPO drops by accuracy 0 or 1; here a group of equal returns in
    between is dropped too.
    Reference: Yu et al., 2025 (DAPO).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        policy: what happens to groups of equal returns. "keep" (default): nothing; everything is
            left to the estimator. "drop": they are taken out before credit.

    Raises:
        CreditError: under ``drop``, a reward is not finite.
    """
    if policy == "keep" or not len(turns.reward):
        return np.ones(len(turns.reward), dtype=bool)
    found = trajectories(turns, "equal_groups")
    return found.rows(
        (varied(found.returns, found.groups, found.num_groups) | (found.counts == 1))[found.groups]
    )

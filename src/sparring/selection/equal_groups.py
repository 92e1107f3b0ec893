"""Selection: what happens to a group whose rewards are all equal."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.credit.base import start_groups, trajectory_returns
from sparring.ops.groups import group_counts, group_std
from sparring.rng import Stream
from sparring.types import BoolArray, TurnTable


def equal_groups(turns: TurnTable, stream: Stream, *, policy: Literal["keep", "drop"] = "keep") -> BoolArray:
    """Return which rows [N] are trained on.

    What: groups are the trajectories of one start and role. In a group of equal returns a group-relative estimator
    finds nothing to learn.
    When to use: ``keep`` leaves everything to the estimator (right for mars, rae, gae, outcome); ``drop`` takes such
    groups out before credit (DAPO's filter; with ``rollout.refills`` more games are played in their place).
    Options: ``policy``.
    Pitfalls: under ``drop`` a batch can shrink; the metric ``kept_share`` shows by how much. Groups of one are kept.
    Reference: Yu et al., 2025 (DAPO).
    Verified by: tests/selection/test_equal_groups.py.
    """
    if policy == "keep" or not len(turns.reward):
        return np.ones(len(turns.reward), dtype=bool)
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    own = groups[starts]
    scale = max(float(np.abs(returns).max()), 1.0)
    dull = (group_std(returns, own, count, ddof=0) <= 1e-9 * scale) & (group_counts(own, count) > 1)
    return ~dull[groups]

"""Selection: the groups whose returns vary most (StarPO-S)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import best_first, trajectories

PRESETS = {"starpo_s": {"keep": 0.25}}


def variance_filter(
    turns: TurnTable, stream: Stream, *, keep: Annotated[float, Field(gt=0, le=1)] = 0.25
) -> BoolArray:
    """Keep the share of groups with the largest deviation of returns.

    What: the rule ranks the groups (one initial state, one role) by the standard deviation of their
    returns, keeps the first groups, and drops the others completely.
    When to use: multi-turn agents that are about to collapse. Initial states that are solved or
    hopeless have no signal and add noise.
    Mathematics: of G groups the rule keeps those of the largest sample deviation; their number is
        max(1, floor(keep * G))
    Shapes: mask [N]; groups per (group, role).
    Pitfalls:
        - A quarter of the groups is a quarter of the data: play four times as many episodes, or set
          ``rollout.refills``.
        - Groups of one have no deviation and are dropped first.
        - A fixed share keeps groups of equal returns if others are too few, unlike ``snr_filter``.
        - The stream breaks ties of deviations.
        - With both seats trained, an episode stays if one of its trajectories stays.
    Reference: Wang et al., 2025 (RAGEN, StarPO-S; arXiv 2504.20073); code of mll-lab-nu/RAGEN,
    rollout_filter.py (top_k).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        keep: share of the groups to keep, above 0 and at most 1. A number or a schedule. The
            default 0.25 is that of preset ``starpo_s``.

    Raises:
        CreditError: a reward is not finite.
    """
    data = trajectories(turns, "variance_filter")
    mask = np.zeros(data.num_groups, dtype=bool)
    num_kept = max(1, int(keep * data.num_groups + 1e-9))
    mask[best_first(data.deviations(), data.group_draws(stream))[:num_kept]] = True
    return data.row_mask(mask[data.groups])

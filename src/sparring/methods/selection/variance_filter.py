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
    """Keep the share of groups whose returns differ most among themselves.

    What: ranks the groups (one start, one role) by the standard deviation of their returns and
    drops the rest of them whole.
    When to use: multi-turn agents that are about to collapse. Starts that are solved or hopeless
    teach nothing and add noise.
    Mathematics: kept are the groups of the largest sample deviation, of G groups as many as
        max(1, floor(keep * G))
    Shapes: mask [N]; groups per (group, role).
    Pitfalls: a quarter of the games is a quarter of the data: play four times as many, or set
    ``rollout.refills``. Groups of one have no deviation and go first. A fixed share keeps groups of
    equal returns when there are too few others; ``snr_filter`` does not. Among equal deviations the
    stream decides. With both seats of a game trained, a game stays if one of them does.
    Reference: Wang et al., 2025 (RAGEN, StarPO-S; arXiv 2504.20073); code of mll-lab-nu/RAGEN,
    rollout_filter.py (top_k).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        keep: share of the groups that are kept, above 0 and at most 1. A number or a schedule. The
            default 0.25 is that of preset ``starpo_s``.

    Raises:
        CreditError: a reward is not finite.
    """
    found = trajectories(turns, "variance_filter")
    kept = np.zeros(found.num_groups, dtype=bool)
    number = max(1, int(keep * found.num_groups + 1e-9))
    kept[best_first(found.deviations(), found.group_draws(stream))[:number]] = True
    return found.rows(kept[found.groups])

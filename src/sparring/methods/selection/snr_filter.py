"""Selection: the groups that carry most of the batch's variance of returns.

It is RAGEN v2's adaptive filter.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import best_first, trajectories

PRESETS = {"as_released": {"score": "deviation", "tolerance": 0.01}}


def snr_filter(
    turns: TurnTable,
    stream: Stream,
    *,
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9,
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0,
    score: Literal["variance", "deviation"] = "variance",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
) -> BoolArray:
    """Keep the groups of largest variance until a share of the batch's summed variance is covered.

    What: the signal of a group-relative gradient is the spread of returns within its groups. Groups
    that add little signal still add their noise. How many groups stay adapts to how the spread is
    distributed.
    When to use: where the share of useful starts changes over the run, so that no fixed share
    (``variance_filter``) is right.
    Mathematics: S_1 >= S_2 >= ... are the scores of the groups. Kept are the fewest first groups
    with
        sum S >= top_p * sum of all S - tolerance
    and of those the ones with
        S >= min_p * S_1
    Shapes: mask [N]; groups per (group, role).
    Pitfalls: a batch of equal returns is dropped whole, and the step changes no weights. A
    tolerance above 0 depends on the scale of the rewards. The release names its score
    reward_variance but takes the deviation, with a tolerance of 0.01, and at top_p 1 does not
    filter at all. Preset ``as_released`` is the first two of these. Among equal scores the stream
    decides.
    Reference: RAGEN v2, 2026 (arXiv 2604.06268), SNR-adaptive filter; code of mll-lab-nu/RAGEN,
    rollout_filter.py (top_p, linear).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        top_p: share of the batch's summed score that is to be covered, above 0 and at most 1. 1
            keeps every group with S > 0.
        min_p: least score of a group, as a share of the largest score, in [0, 1]. 0 (default) is
            off.
        score: what a group is measured by. "variance" (default): the sample variance of its
            returns. "deviation": the root of it.
        tolerance: how much the covered sum may fall short, in units of the score, at least 0.
            Default 0.

    Raises:
        CreditError: a reward is not finite.
    """
    found = trajectories(turns, "snr_filter")
    scores = found.deviations() ** (2 if score == "variance" else 1)
    order = best_first(scores, found.group_draws(stream))
    total = scores.sum()
    before = np.cumsum(scores[order]) - scores[order]  # covered by the groups ahead
    wanted = before < (top_p * total - tolerance) - 1e-12 * total
    kept = np.zeros(found.num_groups, dtype=bool)
    kept[order] = wanted & (scores[order] >= min_p * scores.max(initial=0.0))
    return found.rows(kept[found.groups])

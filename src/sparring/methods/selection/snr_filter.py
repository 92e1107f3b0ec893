"""Selection: the groups with most of the batch's variance of returns (RAGEN v2's filter)."""

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
    """Keep the groups of largest variance until they cover a share of the batch's summed variance.

    What: the signal of a group-relative gradient is the spread of returns within its groups. Groups
    with little signal still add noise. The rule adapts the number of groups to the batch.
    When to use: if the share of useful initial states changes over the run, so that no fixed share
    (``variance_filter``) is right.
    Mathematics: S_1 >= S_2 >= ... are the scores of the groups. The rule keeps the first groups, as
    few as possible, with
        sum S >= top_p * sum of all S - tolerance
    and drops from these the groups with
        S < min_p * S_1
    Shapes: mask [N]; groups per (group, role).
    Pitfalls:
        - A batch of equal returns is dropped completely, and the step changes no weights.
        - A tolerance above 0 depends on the scale of the rewards.
        - The authors' code names its score reward_variance but computes the deviation, and has a
          tolerance of 0.01; preset ``as_released`` has both settings. At top_p 1 that code does not
          filter.
        - The stream breaks ties of scores.
    Reference: RAGEN v2, 2026 (arXiv 2604.06268), SNR-adaptive filter; code of mll-lab-nu/RAGEN,
    rollout_filter.py (top_p, linear).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        top_p: share of the batch's summed score to cover, above 0 and at most 1. 1 keeps every
            group with S > 0.
        min_p: smallest score of a group, as a share of the largest score, in [0, 1]. 0 (default):
            no bound.
        score: score of a group: "variance" (default), the sample variance of its returns, or
            "deviation", the root of the variance.
        tolerance: allowed shortfall of the covered sum, in units of the score, at least 0. Default
            0.

    Raises:
        CreditError: a reward is not finite.
    """
    data = trajectories(turns, "snr_filter")
    scores = data.deviations() ** (2 if score == "variance" else 1)
    order = best_first(scores, data.group_draws(stream))
    total = scores.sum()
    covered_before = np.cumsum(scores[order]) - scores[order]  # covered by the preceding groups
    is_needed = covered_before < (top_p * total - tolerance) - 1e-12 * total
    mask = np.zeros(data.num_groups, dtype=bool)
    mask[order] = is_needed & (scores[order] >= min_p * scores.max(initial=0.0))
    return data.row_mask(mask[data.groups])

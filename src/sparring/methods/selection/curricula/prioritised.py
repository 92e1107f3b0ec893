"""Curriculum: arms of largest latest deviation, or of oldest record (prioritised level replay)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.methods.selection.curricula.base import CurriculumRequest, arm_shares, draw_arms

PRESETS = {"plr": {"by": "rank", "alpha": 10.0, "staleness": 0.1}}


def prioritised(
    request: CurriculumRequest,
    *,
    by: Literal["value", "rank"] = "value",
    alpha: Annotated[float, Field(ge=0)] = 1.0,
    staleness: Annotated[float, Field(ge=0, le=1)] = 0.1,
) -> IntArray:
    """Play the arms with the largest latest deviation of returns, and those with the oldest record.

    What: prioritised level replay. The deviation of returns replaces the mean absolute TD error,
    which needs a critic. Both measure the size of the latest advantages.
    When to use: many fixed initial states, also in zero-sum self-play, because the deviation is
    within a role.
    Mathematics: d is the deviation of an arm's latest record.
        h = d                by "value"
        h = 1 / rank of d    by "rank"
        P_S ~ h^alpha
        P_C ~ steps since the latest record
    A played arm is drawn by
        (1 - staleness) P_S + staleness P_C
    Unplayed arms get a part of the draws equal to their share of all arms, by weight.
    Shapes: [A] arms -> [groups].
    Pitfalls:
        - With one episode per group every deviation is 0, so all played arms are equally likely.
        - With ``plr`` nearly all groups of a step go to one arm. This fits a method that plays one
          level at a time, and is greedy for a batch.
        - The first of several equal arms has the better rank.
        - Noise counts as a signal.
        - Weights of games matter only for unplayed arms.
    Reference: Jiang et al., 2021 (Prioritized Level Replay, arXiv 2010.03934); Schaul et al., 2016
    (value and rank).
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        by: priority of an arm: "value" (default), the deviation, or "rank", one over its rank.
        alpha: exponent of the priority, at least 0. 0 gives all played arms the same priority; a
            larger alpha is greedier. Preset ``plr`` has 10, because the paper's temperature is 0.1.
        staleness: share of the draws by the age of the latest record, in [0, 1]; such draws keep
            the records of all arms recent. Default 0.1.
    """
    is_played = np.array([bool(records) for records in request.history])
    scores = np.array([records[-1].deviation if records else 0.0 for records in request.history])
    ages = np.array(
        [request.step - records[-1].step if records else 0 for records in request.history],
        dtype=np.float64,
    )
    priorities = _reciprocal_ranks(scores, is_played)
    if by == "value":
        priorities = scores / max(float(scores.max()), 1e-300)
    score_probabilities, age_probabilities = (
        _distribution(values, is_played)
        for values in (np.where(priorities > 0, priorities, 0.0) ** alpha, ages)
    )
    probabilities = (1.0 - staleness) * score_probabilities + staleness * age_probabilities
    return draw_arms(
        request,
        probabilities * is_played.mean()
        + _distribution(arm_shares(request.arms), ~is_played) * (1.0 - is_played.mean()),
    )


def _reciprocal_ranks(scores: FloatArray, is_played: BoolArray) -> FloatArray:
    """Return 1 / rank of each played arm's score, from the largest; 0 for unplayed arms."""
    ranks = np.zeros(len(scores))
    ranks[np.lexsort((-scores, ~is_played))] = 1.0 / np.arange(1, len(scores) + 1)
    return np.where(is_played, ranks, 0.0)


def _distribution(values: FloatArray, mask: BoolArray) -> FloatArray:
    """Return values as probabilities over a subset of arms; uniform if all values are 0."""
    weights = np.where(mask, values, 0.0)
    weights = weights if weights.sum() > 0 else mask.astype(np.float64)
    return weights / max(float(weights.sum()), 1e-300)

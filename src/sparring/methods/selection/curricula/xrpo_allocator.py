"""Curriculum: episodes for the arms with the largest gain of confidence (XRPO's allocator)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import stdtrit

from sparring.core.records import FloatArray, IntArray
from sparring.methods.selection.curricula.base import ArmRecord, CurriculumRequest


def xrpo_allocator(
    request: CurriculumRequest,
    *,
    exploration: Annotated[float, Field(ge=0)] = 0.5,
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    window: Annotated[int, Field(ge=1)] = 4,
) -> IntArray:
    """Assign groups one by one to the arm whose confidence interval one more episode narrows most.

    What: an allocation of a step's episodes to arms: many to arms with varied returns and few
    records, few to arms with a certain outcome.
    When to use: with ``rollout.starts``. Groups of the same initial state are one group, so that
    the size of an arm's group follows from its priority.
    Mathematics: an arm's latest ``window`` records have n trajectories with pooled sample deviation
    s.
        h(n) = t * s / sqrt(n)
        priority = h(n) - h(n + 1) + exploration * sqrt(ln(1 + T) / n)
    t is the quantile of Student's distribution with n - 1 degrees at (1 + confidence) / 2, T the
    sum of all n. Each group goes to the arm of the highest priority, whose n then grows by the size
    of a group. Arms with n < 2 come first.
    Shapes: [A] arms -> [groups].
    Pitfalls:
        - This is our reading, not a reproduction: the structure is from notes on the paper, and the
          forms of h and of the bonus are from memory.
        - The paper plans three rounds within a step. Here the statistics are the records of earlier
          steps, from older policies.
        - Weights of games have no effect, and returns are compared in the games' units.
        - The stream breaks ties of priorities.
    Reference: XRPO (arXiv 2510.06672), rollout allocator; Auer et al., 2002 (the bonus).
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        exploration: weight of the bonus for arms with few episodes, in units of returns, at least
            0. With 0 only deviations count: an arm of equal returns is never played again while
            another arm has different returns.
        confidence: level of the confidence interval of the mean return, above 0 and below 1.
            Default 0.95.
        window: number of an arm's latest records that count, at least 1; at most 32 are kept.
    """
    statistics = [_pool_records(records[-window:]) for records in request.history]
    num_trajectories = np.array([n for n, _ in statistics], dtype=np.float64)
    deviations = np.array([s for _, s in statistics])
    sizes = [record.size for records in request.history for record in records[-window:]]
    group_size = max(1, round(sum(sizes) / len(sizes))) if sizes else 1
    draws = np.array(
        [request.stream.child("arm").child(arm).uniform(0) for arm in range(len(request.arms))]
    )
    chosen_arms = []
    for _ in range(request.num_groups):
        priority = _priority(num_trajectories, deviations, exploration, confidence)
        arm = int(np.lexsort((draws, -priority))[0])
        chosen_arms.append(arm)
        num_trajectories[arm] += group_size
        draws[arm] += 1.0  # other arms of equal priority come first next time
    return np.array(chosen_arms, dtype=np.int64)


def _pool_records(records: Sequence[ArmRecord]) -> tuple[int, float]:
    count = sum(record.size for record in records)
    squares = sum(record.size * record.deviation**2 for record in records)
    return count, math.sqrt(squares / max(count - len(records), 1))


def _priority(
    counts: FloatArray, deviations: FloatArray, exploration: float, confidence: float
) -> FloatArray:
    """Return the priority of every arm, [A]; infinite for arms with n < 2."""
    has_few_trajectories, sizes = counts < 2, np.maximum(counts, 2)
    width = _half_width(sizes, deviations, confidence)
    gain = width - _half_width(sizes + 1, deviations, confidence)
    bonus = exploration * np.sqrt(np.log1p(counts.sum()) / sizes)
    return np.where(has_few_trajectories, np.inf, gain + bonus)


def _half_width(counts: FloatArray, deviations: FloatArray, confidence: float) -> FloatArray:
    width: FloatArray = stdtrit(counts - 1, (1.0 + confidence) / 2.0) * deviations / np.sqrt(counts)
    return width

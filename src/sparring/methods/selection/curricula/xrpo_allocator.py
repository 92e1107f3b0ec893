"""Curriculum: games go where one more narrows the confidence interval most (XRPO's allocator)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import stdtrit

from sparring.core.records import FloatArray, IntArray
from sparring.methods.selection.curricula.base import CurriculumRequest, Record


def xrpo_allocator(
    request: CurriculumRequest,
    *,
    exploration: Annotated[float, Field(ge=0)] = 0.5,
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    window: Annotated[int, Field(ge=1)] = 4,
) -> IntArray:
    """Give the groups one by one to the arm whose mean return gains the most certainty.

    It is the gain from one more game.

    What: an allocation of a step's games over arms: many where returns vary and few are known, few
    where the outcome is settled.
    When to use: with ``rollout.starts``. Groups that get the same start are one group, so an arm
    gets as large a group as it is worth.
    Mathematics: an arm's latest ``window`` records have n trajectories with pooled sample deviation
    s.
        h(n) = t * s / sqrt(n)
        priority = h(n) - h(n + 1) + exploration * sqrt(ln(1 + T) / n)
    t is the quantile of Student's distribution with n - 1 degrees at (1 + confidence) / 2, T the
    sum of all n. Each group goes to the arm of the highest priority, whose n then grows by the size
    of a group, until all are given. Arms with n < 2 come first.
    Shapes: [A] arms -> [groups].
    Pitfalls: structure from notes on the paper, the forms of h and of the bonus from memory:
    literal reading, no reproduction. The paper plans three rounds within a step; here the records
    of earlier steps, of older policies, are what is known. Weights of games are not looked at, and
    returns are compared in the games' units. Of equal priorities the stream decides.
    Reference: XRPO (arXiv 2510.06672), rollout allocator; Auer et al., 2002 (the bonus).
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        exploration: weight of the bonus for arms with few games, in units of returns, at least 0.
            With 0 only deviations count: an arm of equal returns is then never played again while
            another varies.
        confidence: level of the confidence interval of the mean return, above 0 and below 1.
            Default 0.95.
        window: number of an arm's latest records that are looked at, at least 1; at most 32 are
            kept.
    """
    known = [_pooled(records[-window:]) for records in request.history]
    counts, spread = (
        np.array([n for n, _ in known], dtype=np.float64),
        np.array([s for _, s in known]),
    )
    sizes = [record.size for records in request.history for record in records[-window:]]
    step = max(1, round(sum(sizes) / len(sizes))) if sizes else 1
    draws = np.array(
        [request.stream.child("arm").child(arm).uniform(0) for arm in range(len(request.arms))]
    )
    chosen = []
    for _ in range(request.groups):
        priority = _priority(counts, spread, exploration, confidence)
        best = int(np.lexsort((draws, -priority))[0])
        chosen.append(best)
        counts[best] += step
        draws[best] += 1.0  # the next of equal arms comes before this one again
    return np.array(chosen, dtype=np.int64)


def _pooled(records: Sequence[Record]) -> tuple[int, float]:
    count = sum(record.size for record in records)
    squares = sum(record.size * record.deviation**2 for record in records)
    return count, math.sqrt(squares / max(count - len(records), 1))


def _priority(
    counts: FloatArray, spread: FloatArray, exploration: float, confidence: float
) -> FloatArray:
    """Return the priority of every arm, [A]. That of arms with n < 2 falls with n but stays above
    all others."""
    few, known = counts < 2, np.maximum(counts, 2)
    gain = _half_width(known, spread, confidence) - _half_width(known + 1, spread, confidence)
    bonus = exploration * np.sqrt(np.log1p(counts.sum()) / known)
    return np.where(few, np.inf, gain + bonus)


def _half_width(counts: FloatArray, spread: FloatArray, confidence: float) -> FloatArray:
    """Return half the width of the interval of a mean of so many, [A]."""
    width: FloatArray = stdtrit(counts - 1, (1.0 + confidence) / 2.0) * spread / np.sqrt(counts)
    return width

"""Tests of significance that pages of studies report, and rank correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from scipy.special import stdtr
from scipy.stats import spearmanr

from sparring.core.records import Interval
from sparring.ops.statistics import student_quantile


def zero_probability(estimate: Interval, *, level: float = 0.0) -> float:
    """Return the two-sided p that a mean is 0, from its interval by ``mean_interval``.

    p = 2 P(T > |mean - level| / standard error), T Student's t with count - 1 degrees of freedom; 1
    for fewer than two values.

    Args:
        estimate: the mean with its interval.
        level: value that is compared with the mean.
    """
    if estimate.count < 2 or not math.isfinite(estimate.high - estimate.low):
        return 1.0
    degrees = estimate.count - 1
    error = (estimate.high - estimate.low) / 2 / student_quantile(degrees, estimate.level)
    if error == 0:
        return 1.0 if estimate.mean == level else 0.0
    return float(2 * stdtr(degrees, -abs(estimate.mean - level) / error))


def share_probability(share: float, count: int, level: float) -> float:
    """Return the two-sided p that a share of independent observations is ``level``.

    The score test, which belongs to Wilson's interval: p = 2 P(Z > |share - level| / deviation)
    with deviation^2 = level (1 - level) / count.
    """
    deviation = math.sqrt(level * (1 - level) / count)
    return 2 * NormalDist().cdf(-abs(share - level) / deviation)


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return p values corrected for their number (Holm, 1979), in the given order.

    With p_(1) <= ... <= p_(m): corrected p_(k) = max over j <= k of min(1, (m - j + 1) p_(j)).
    """
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    corrected, running_maximum = [0.0] * len(order), 0.0
    for rank, index in enumerate(order):
        running_maximum = max(running_maximum, min(1.0, (len(order) - rank) * probabilities[index]))
        corrected[index] = running_maximum
    return corrected


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation of pairs; None if one side is constant."""
    sides = [set(side) for side in zip(*pairs, strict=True)]
    if len(sides) < 2 or any(len(side) < 2 for side in sides):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)

"""Confidence intervals of proportions and means, also of clustered observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from sparring.core.records import FloatArray, Interval


def wilson_interval(successes: int, count: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion (Wilson, 1927).

    The interval keeps its coverage at 0 and 1 and for small counts, where the normal interval
    fails. Without observations the interval is [0, 1] and the mean NaN.
    """
    if count == 0:
        return Interval(mean=math.nan, low=0.0, high=1.0, count=0, level=level)
    share = successes / count
    low, high = wilson_ends(share, count, level)
    return Interval(mean=share, low=low, high=high, count=count, level=level)


def wilson_ends(share: float, count: float, level: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a share; ``count`` may be fractional."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    margin = (
        z
        / (1 + z * z / count)
        * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    )
    return 0.0 if share == 0 else max(middle - margin, 0.0), 1.0 if share == 1 else min(
        middle + margin, 1.0
    )


def wilson_count(share: float, margin: float, level: float = 0.95) -> float:
    """Return the number n of observations at which Wilson's interval has a given half-width.

    Equation:
        margin^2 (1 + u)^2 = share (1 - share) u + u^2 / 4,   u = z^2 / n

    n may be fractional. A large n grows with 1 / margin^2.

    Args:
        share: expected share of the observations.
        margin: half of the interval's width, in (0, 1/2).
        level: coverage.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    quadratic, linear = (0.25 - margin * margin, share * (1 - share) - 2 * margin * margin)
    root = (math.sqrt(linear * linear + 4 * quadratic * margin * margin) - linear) / (2 * quadratic)
    return z * z / root


def mean_interval(values: Sequence[float] | FloatArray, *, level: float = 0.95) -> Interval:
    """Return the mean with Student's t interval, which is infinite for fewer than two values."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf, count=0, level=level)
    mean = float(data.mean())
    if len(data) == 1:
        return Interval(mean=mean, low=-math.inf, high=math.inf, count=1, level=level)
    margin = student_margin(float(data.std(ddof=1)), len(data), level)
    return Interval(mean=mean, low=mean - margin, high=mean + margin, count=len(data), level=level)


def student_margin(deviation: float, count: float, level: float = 0.95) -> float:
    """Return the half-width of Student's t interval of a mean.

    Args:
        deviation: sample standard deviation of the values.
        count: number of values, above 1; may be a sum of weights.
        level: coverage.
    """
    return student_quantile(count - 1, level) * deviation / math.sqrt(count)


def student_quantile(degrees: float, level: float = 0.95) -> float:
    """Return t such that P(|Student's t| < t) = ``level``.

    Args:
        degrees: degrees of freedom, above 0, may be fractional.
        level: coverage.
    """
    return float(stdtrit(degrees, (1 + level) / 2))


def clustered_mean_interval(
    sums: FloatArray, sizes: FloatArray, *, level: float = 0.95
) -> Interval:
    """Return the mean of observations in independent clusters, with Student's t interval.

    Equation (Cochran, 1977, 6.4):
        mean r = sum_c sums / sum_c sizes
        standard error^2 = C / (C - 1) * sum_c (sums - r * sizes)^2 / (sum_c sizes)^2

    with C - 1 degrees of freedom; for clusters of size 1 this is ``mean_interval``. The interval is
    infinite for fewer than two clusters.

    Args:
        sums: [C] sum of the observations of each cluster.
        sizes: [C] number of observations of each cluster, at least 1.
        level: coverage.
    """
    count, total = len(sizes), float(sizes.sum())
    if count == 0:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf, count=0, level=level)
    mean = float(sums.sum()) / total
    if count == 1:
        return Interval(mean=mean, low=-math.inf, high=math.inf, count=int(total), level=level)
    margin = student_quantile(count - 1, level) * _clustered_error(sums, sizes, mean)
    return Interval(mean=mean, low=mean - margin, high=mean + margin, count=int(total), level=level)


def clustered_share_interval(
    successes: FloatArray, sizes: FloatArray, *, level: float = 0.95
) -> Interval:
    """Return a share of clustered observations, with Wilson's interval.

    The interval uses an effective number of observations: share * (1 - share) / standard error^2 of
    ``clustered_mean_interval``, at most the actual number, times (z / t)^2 for C - 1 degrees of
    freedom (Korn and Graubard, 1998). If the share is 0 or 1, the similarity within clusters is
    unknown, and each cluster counts as one observation. With fewer than two clusters the interval
    is [0, 1].

    Args:
        successes: [C] number of successes in each cluster.
        sizes: [C] number of observations of each cluster, at least 1.
        level: coverage.
    """
    count, total = len(sizes), float(sizes.sum())
    share = float(successes.sum()) / total if count else math.nan
    if count < 2:
        return Interval(mean=share, low=0.0, high=1.0, count=int(total), level=level)
    error = _clustered_error(successes, sizes, share)
    number = min(share * (1 - share) / error**2, total) if error > 0 else total
    if share in (0.0, 1.0):
        number = float(count)
    z = NormalDist().inv_cdf((1 + level) / 2)
    low, high = wilson_ends(share, number * (z / student_quantile(count - 1, level)) ** 2, level)
    return Interval(mean=share, low=low, high=high, count=int(total), level=level)


def _clustered_error(sums: FloatArray, sizes: FloatArray, mean: float) -> float:
    num_clusters, residuals = len(sizes), sums - mean * sizes
    variance = num_clusters / (num_clusters - 1) * float(residuals @ residuals)
    return math.sqrt(variance) / float(sizes.sum())


def jackknife_interval(
    estimate: float, partial_estimates: FloatArray, *, more_error: float = 0.0, level: float = 0.95
) -> Interval:
    """Return the jackknife interval of a smooth statistic of n independent observations.

    Equation (Efron and Stein, 1981):
        standard error^2 = (n - 1) / n * sum over k of (partial[k] - mean of partial)^2

    with Student's t of n - 1 degrees of freedom.

    Args:
        estimate: the statistic of all observations.
        partial_estimates: the statistic without the k-th observation, for each k, [n].
        more_error: standard error that the jackknife may miss, for example if a U-statistic is
            nearly degenerate; its square is added.
        level: coverage.
    """
    count = len(partial_estimates)
    if count < 2:
        return Interval(mean=estimate, low=-math.inf, high=math.inf, count=count, level=level)
    error = math.hypot(math.sqrt((count - 1) * float(partial_estimates.var())), more_error)
    margin = student_quantile(count - 1, level) * error
    return Interval(
        mean=estimate, low=estimate - margin, high=estimate + margin, count=count, level=level
    )

"""Intervals for what is estimated by playing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from sparring.rng import Stream
from sparring.types import FloatArray, Interval


def wilson_interval(successes: int, count: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion (Wilson, 1927).

    It keeps its coverage at 0 and 1 and for small counts, where the normal interval fails. Without observations the
    interval is [0, 1] and the mean not a number.
    """
    if count == 0:
        return Interval(mean=math.nan, low=0.0, high=1.0, count=0, level=level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low = 0.0 if successes == 0 else max(middle - half, 0.0)
    high = 1.0 if successes == count else min(middle + half, 1.0)
    return Interval(mean=share, low=low, high=high, count=count, level=level)


def mean_interval(values: Sequence[float] | FloatArray, *, level: float = 0.95) -> Interval:
    """Return the mean with Student's t interval; infinite ends where fewer than two values leave no estimate."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf, count=0, level=level)
    mean = float(data.mean())
    if len(data) == 1:
        return Interval(mean=mean, low=-math.inf, high=math.inf, count=1, level=level)
    half = float(stdtrit(len(data) - 1, (1 + level) / 2)) * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(mean=mean, low=mean - half, high=mean + half, count=len(data), level=level)


def bootstrap_interval(
    values: FloatArray, statistic: Callable[[FloatArray], float], *, stream: Stream, resamples: int = 1000, level: float = 0.95
) -> Interval:
    """Return the percentile bootstrap interval of a statistic of rows drawn with replacement.

    Args:
        values: [N, ...]; rows are resampled.
        statistic: maps rows to a number.
        stream: makes the interval reproducible.
        resamples: number of bootstrap samples.
        level: coverage.
    """
    generator = stream.generator()
    draws = [statistic(values[generator.integers(0, len(values), len(values))]) for _ in range(resamples)]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean=float(statistic(values)), low=float(low), high=float(high), count=len(values), level=level)


def jackknife_interval(estimate: float, left_out: FloatArray, *, more_error: float = 0.0, level: float = 0.95) -> Interval:
    """Return the jackknife interval of a smooth statistic of n independent observations (Efron and Stein, 1981).

    standard error^2 = (n - 1) / n * sum over k of (left_out[k] - mean of left_out)^2, with Student's t of n - 1 degrees.

    Args:
        estimate: the statistic of all observations.
        left_out: the statistic without each of them in turn, [n].
        more_error: standard error of what the jackknife may miss, added in squares; for U-statistics near where they degenerate.
        level: coverage.
    """
    count = len(left_out)
    if count < 2:
        return Interval(mean=estimate, low=-math.inf, high=math.inf, count=count, level=level)
    error = math.hypot(math.sqrt((count - 1) * float(left_out.var())), more_error)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * error
    return Interval(mean=estimate, low=estimate - half, high=estimate + half, count=count, level=level)

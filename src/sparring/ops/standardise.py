"""Values relative to the mean and deviation of their group, in numpy. N rows, G groups."""

from __future__ import annotations

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.groups import centre, group_counts, group_sum

# a deviation below this share of the group's mean size is what rounding left of equal values
ROUNDING = 1e-13


def deviations(values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1) -> FloatArray:
    """Return the standard deviation of each group, [G].

    It is exactly 0 for groups that are equal up to rounding or too small.
    """
    centred, counts = centre(values, ids, num_groups), group_counts(ids, num_groups)
    variance = group_sum(centred * centred, ids, num_groups) / np.maximum(counts - ddof, 1)
    size = group_sum(np.abs(values), ids, num_groups) / np.maximum(counts, 1)
    deviation = np.sqrt(variance)
    return np.where((counts > ddof) & (deviation > ROUNDING * size), deviation, 0.0)


def varied(values: FloatArray, ids: IntArray, num_groups: int) -> BoolArray:
    """Return whether each group holds values that differ by more than rounding, [G]."""
    return deviations(values, ids, num_groups, ddof=0) > 0.0


def over_deviation(
    differences: FloatArray,
    values: FloatArray,
    ids: IntArray,
    num_groups: int,
    *,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Return differences over the deviation of their group's values, [N].

    Equation:
        result[i] = differences[i] / (std of values[j] over j in the group of i + epsilon)

    It is exactly 0 in groups of one or of equal values.

    Args:
        differences: float64 [N], ``values`` minus any baseline.
        values: float64 [N], whose deviation divides; for values minus their mean see
            ``standardise``.
        ids: int64 [N], group of each row.
        num_groups: number of groups G.
        ddof: 1 for the sample deviation, 0 for the population's.
        epsilon: added to the deviation.
    """
    deviation = deviations(values, ids, num_groups, ddof=ddof)
    quotient: FloatArray = differences / np.where(deviation > 0.0, deviation + epsilon, np.inf)[ids]
    return quotient


def standardise(
    values: FloatArray, ids: IntArray, num_groups: int, *, ddof: int = 1, epsilon: float = 1e-6
) -> FloatArray:
    """Return (value - mean) / (deviation + epsilon) by group, [N].

    It is exactly 0 in groups of one or of equal values.

    Args:
        values: float64 [N].
        ids: int64 [N], group of each row.
        num_groups: number of groups G.
        ddof: 1 for the sample deviation, 0 for the population's.
        epsilon: added to the deviation.
    """
    deviation = deviations(values, ids, num_groups, ddof=ddof)
    factor = np.divide(1.0, deviation + epsilon, out=np.zeros(num_groups), where=deviation > 0.0)
    return centre(values, ids, num_groups) * factor[ids]


def whitened(values: FloatArray, weights: FloatArray, size: float) -> FloatArray:
    """Return values with weighted mean 0 and sample variance 1, [N].

    Zeros where their deviation is rounding at this size.

    Args:
        values: float64 [N].
        weights: float64 [N], how often each value counts.
        size: mean size of what the values were computed from.
    """
    total = float(weights.sum())
    if total < 2.0:
        return np.zeros_like(values)
    centred = values - float(values @ weights) / total
    centred -= float(centred @ weights) / total
    variance = float((centred * centred) @ weights) / (total - 1.0)
    if variance <= (ROUNDING * size) ** 2:
        return np.zeros_like(values)
    return centred / float(np.sqrt(variance + 1e-8))

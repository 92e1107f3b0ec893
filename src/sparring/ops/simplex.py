"""Distributions of numbers: the softmax, the shares of what is above 0, the nearest one."""

from __future__ import annotations

import numpy as np

from sparring.types import FloatArray


def softmax(values: FloatArray) -> FloatArray:
    """Return weights in proportion to the exponentials of some numbers, [m]."""
    raised = np.exp(values - values.max())
    found: FloatArray = raised / raised.sum()
    return found


def shares_above_zero(values: FloatArray) -> FloatArray:
    """Return weights in proportion to what is above 0, [m]; uniform where nothing is.

    Of regrets, this is regret matching.
    """
    above = np.maximum(values, 0.0)
    total = above.sum()
    found: FloatArray = above / total if total > 0 else np.full(len(above), 1.0 / len(above))
    return found


def onto_simplex(weights: FloatArray, least: float = 0.0) -> FloatArray:
    """Return the distribution nearest to some weights among those that are nowhere below ``least``.

    It is max(w_i - t, least) with the one t that makes the sum 1.

    Args:
        weights: any numbers, [m].
        least: the smallest probability, at most 1 / m.
    """
    size, total = len(weights), float(weights.sum())
    if abs(total - 1.0) < 1e-12 and float(weights.min()) >= least:
        return weights / total  # nothing but rounding is to be mended
    ordered = np.sort(weights)[::-1] - least
    counts = np.arange(1, size + 1)
    shifts = (np.cumsum(ordered) - (1.0 - size * least)) / counts
    last = int(np.flatnonzero(ordered >= shifts)[-1])
    found: FloatArray = np.maximum(weights - shifts[last], least)
    return found

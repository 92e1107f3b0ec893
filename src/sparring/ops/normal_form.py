"""Games in normal form: one axis per side, and what each choice of a side earns on average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.types import FloatArray


def choice_payoffs(payoffs: FloatArray, strategies: Sequence[FloatArray], side: int) -> FloatArray:
    """Return what each choice of a side earns where the other sides play so, [m_side].

    Args:
        payoffs: the payoffs to this side, [m_0, ..., m_{n-1}].
        strategies: of each side a distribution over its choices, [m_s].
        side: whose choices.
    """
    left = np.moveaxis(payoffs, side, 0)
    for other in reversed([s for s in range(len(strategies)) if s != side]):
        left = left @ strategies[other]
    return left


def largest_size(arrays: Sequence[FloatArray]) -> float:
    """Return the largest absolute value in some arrays, at least the smallest normal number."""
    return max(np.finfo(np.float64).tiny, *(float(np.abs(array).max()) for array in arrays))


def in_range(payoffs: Sequence[FloatArray]) -> tuple[tuple[FloatArray, ...], FloatArray, float]:
    """Return payoffs moved and scaled into [-1, 1], what was taken from each, and the scale.

    From each side's payoffs their middle is taken; all are divided by half of the largest range of
    one. No preference between choices changes. Where no payoff differs from another of its side
    they are zeros, and the scale is 0.

    Args:
        payoffs: of each side an array of finite numbers.
    """
    ends = np.array([(float(table.min()), float(table.max())) for table in payoffs])
    middles: FloatArray = ends.sum(axis=1) / 2
    half = float(np.diff(ends, axis=1).max()) / 2
    if half == 0.0:
        return tuple(np.zeros_like(table) for table in payoffs), middles, 0.0
    moved = (table - middle for table, middle in zip(payoffs, middles, strict=True))
    return tuple(table / half for table in moved), middles, half

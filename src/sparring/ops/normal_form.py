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

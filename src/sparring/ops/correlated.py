"""The correlated equilibrium of a game in normal form that has the largest Gini impurity.

Equilibria are the distributions p over cells with A p <= 0, a row of A per deviation. Without their
sum they are a cone K. The smallest sum of squares among those of sum 1 points where the projection
of the vector of ones onto K does, and by Moreau's theorem

    projection onto K of 1 = 1 - G z,   G = [A^T, -I],   z = argmin over z >= 0 of |1 - G z|^2

which is a least-squares problem with z at least 0, solved exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sparring.ops.least_squares import nonnegative
from sparring.ops.normal_form import in_range
from sparring.types import FloatArray

SMALLEST = 1e-12  # deviations that gain less are none, of payoffs in [-1, 1]


def most_mixed(payoffs: Sequence[FloatArray], *, recommended: bool) -> FloatArray:
    """Return the equilibrium with the smallest sum of squares, [m_0, ..., m_{n-1}].

    Args:
        payoffs: of each side, [m_0, ..., m_{n-1}], finite.
        recommended: deviations may depend on the choice that is recommended (correlated
            equilibria); else they are decided on before it is known (coarse ones).
    """
    tables, _, _ = in_range(payoffs)
    shape = tables[0].shape
    gains = np.array(list(_gains(tables, recommended=recommended))).reshape(-1, tables[0].size)
    sizes = np.abs(gains).max(axis=1, initial=0.0)
    kept = gains[sizes > SMALLEST] / sizes[sizes > SMALLEST, None]
    cone = np.hstack([kept.T, -np.eye(kept.shape[1])])
    weights = np.ones(len(cone)) - cone @ nonnegative(cone, np.ones(len(cone)))
    kept = np.maximum(weights, 0.0).reshape(shape)
    found: FloatArray = kept / kept.sum()
    return found


def _gains(tables: Sequence[FloatArray], *, recommended: bool) -> Iterator[FloatArray]:
    """Yield for each deviation what it gains in each cell, [m_0, ..., m_{n-1}]."""
    for side, table in enumerate(tables):
        size = table.shape[side]
        for taken in range(size if size > 1 else 0):
            gain = np.take(table, [taken], axis=side) - table
            if not recommended:
                yield gain
                continue
            for told in range(size):
                if told != taken:
                    only = np.zeros_like(gain)
                    where = tuple(told if s == side else slice(None) for s in range(gain.ndim))
                    only[where] = gain[where]
                    yield only

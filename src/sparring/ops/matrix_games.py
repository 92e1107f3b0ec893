"""Optimal strategies of a matrix game, by linear programming.

A[i, j] is what the row player earns and the column player pays. An optimal strategy x of the row
player earns the value v against every column:

    max over x in the simplex, v of v   so that   x^T A[:, j] >= v for every j
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from sparring.ops.normal_form import in_range
from sparring.types import FloatArray


def maximin(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return an optimal strategy of the row player, [m_0], and the value.

    The strategy is a vertex of the set of optimal ones. Where all entries are equal it is uniform.

    Args:
        matrix: what the row player earns, [m_0, m_1], finite.

    Raises:
        ArithmeticError: the linear program was not solved.
    """
    (scaled,), (middle,), half = in_range((matrix,))
    rows, columns = matrix.shape
    if half == 0.0:
        return np.full(rows, 1.0 / rows), float(middle)
    found = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-scaled.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs-ds",
    )
    if not found.success:
        raise ArithmeticError(f"The linear program was not solved: {found.message}")
    weights: FloatArray = np.maximum(found.x[:-1], 0.0)
    strategy = weights / weights.sum()
    return strategy, float(middle + half * (strategy @ scaled).min())

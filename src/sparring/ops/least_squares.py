"""Least squares with unknowns that are at least 0, also where columns depend on each other.

The active-set method of Lawson and Hanson, 1974. SciPy's ``nnls`` fails where columns are linearly
dependent, as those of cones that contain a line are, and ends the process where there is none.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq

from sparring.types import BoolArray, FloatArray, IntArray

LEFT = 1e-11  # a column whose product with the rest is at most this is not taken in
DEPENDENT = 1e-11  # singular values below this share of the largest are 0


def nonnegative(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Return z at least 0 with the smallest |matrix z - target|, [n].

    Args:
        matrix: [m, n], columns of about the size 1; n may be 0.
        target: [m].

    Raises:
        ArithmeticError: the search came to no end.
    """
    size = matrix.shape[1]
    alone = np.where((matrix != 0).sum(axis=0) == 1, np.abs(matrix).argmax(axis=0), -1)
    found, taken, refused = np.zeros(size), np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for _ in range(10 * size + 1):
        slopes = matrix.T @ (target - matrix @ found)
        slopes[taken | refused] = -np.inf
        best = int(slopes.argmax()) if size else 0
        if not size or slopes[best] <= LEFT:
            return found
        taken[best] = True
        solved = _solved(matrix, target, taken, alone)
        if solved[best] <= 0.0:  # by rounding: the column depends on those taken
            taken[best], refused[best] = False, True
            continue
        refused[:] = False
        while solved[taken].min() <= 0.0:
            falling = np.flatnonzero(taken & (solved <= 0.0))
            shares = found[falling] / np.maximum(found[falling] - solved[falling], 1e-300)
            found = found + shares.min() * (solved - found)
            taken[falling[shares == shares.min()]] = False
            found[~taken] = 0.0
            if not taken.any():
                break
            solved = _solved(matrix, target, taken, alone)
        found = np.where(taken, solved, 0.0)
    raise ArithmeticError("The least-squares problem was not solved.")


def _solved(
    matrix: FloatArray, target: FloatArray, taken: BoolArray, alone: IntArray
) -> FloatArray:
    """Return the least-squares solution in the columns that are taken, 0 elsewhere, [n].

    A column with a number in one row alone mends that row, whatever the others do: it is left out
    with its row, which leaves few numbers of the large problems of this package.
    """
    found = np.zeros(matrix.shape[1])
    single, full = np.flatnonzero(taken & (alone >= 0)), np.flatnonzero(taken & (alone < 0))
    rows = np.ones(len(target), dtype=bool)
    rows[alone[single]] = False
    if len(full) and rows.any():
        part = matrix[np.ix_(rows, full)]
        found[full] = lstsq(part, target[rows], cond=DEPENDENT, lapack_driver="gelsy")[0]
    mended = alone[single]
    left = target[mended] - matrix[np.ix_(mended, full)] @ found[full]
    found[single] = left / matrix[mended, single]
    return found

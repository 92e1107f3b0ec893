"""Matching rows with columns by how alike they are.

Greedy, exact, and spread by entropic optimal transport.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from sparring.core.records import FloatArray, IntArray

# how much more a match of the first row counts than one of the last: of equal sums the one that
# pays earlier rows wins
TIE = 1e-9
ROUNDS = 1000  # most rounds of Sinkhorn's iteration
CLOSE = 1e-9  # how far the sums of a plan may be off when it ends


def greedy_matching(similarity: FloatArray) -> IntArray:
    """Return the column of each row, -1 for none.

    The most alike pair first, then the most alike of what is left; int64 [rows].

    Args:
        similarity: float64 [rows, columns]; only positive ones are matched. Of equal ones the first
            row goes first, then column.
    """
    rows, columns = similarity.shape
    found, taken = np.full(rows, -1, dtype=np.int64), np.zeros(columns, dtype=bool)
    for place in np.argsort(-similarity, axis=None, kind="stable"):
        row, column = divmod(int(place), columns)
        if found[row] < 0 and not taken[column] and similarity[row, column] > 0.0:
            found[row], taken[column] = column, True
    return found


def exact_matching(similarity: FloatArray) -> IntArray:
    """Return the column of each row, -1 for none; int64 [rows].

    The sum over all matches is the largest.

    Args:
        similarity: float64 [rows, columns], none negative; only positive ones are matched.
    """
    rows = len(similarity)
    lean = 1.0 + TIE * np.arange(rows, 0, -1) / max(rows, 1)
    row, column = linear_sum_assignment(similarity * lean[:, None], maximize=True)
    found = np.full(rows, -1, dtype=np.int64)
    found[row] = np.where(similarity[row, column] > 0.0, column, -1)
    return found


def transport_plan(similarity: FloatArray, regularisation: float) -> FloatArray:
    """Return the plan T of a matching by Sinkhorn; float64 [rows, columns].

    It maximises sum T * similarity + regularisation * entropy(T).

    Every row sums to 1 / rows; every column to 1 / columns, up to ``CLOSE`` where ``ROUNDS`` rounds
    are enough, as they mostly are; else up to 0.001 with regularisation 0.1.

    Args:
        similarity: float64 [rows, columns], at least one of each.
        regularisation: at least 0.01 for similarities in [0, 1].
    """
    rows, columns = similarity.shape
    kernel = np.exp((similarity - similarity.max()) / regularisation)
    left = np.ones(rows)
    for _ in range(ROUNDS):
        right = 1.0 / (columns * (left @ kernel))
        sums = left * (kernel @ right)
        left = left / (rows * sums)
        if np.abs(sums - 1.0 / rows).max() < CLOSE:
            break
    plan: FloatArray = left[:, None] * kernel * right
    return plan

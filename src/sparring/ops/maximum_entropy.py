"""The optimal strategy of a matrix game that has the largest entropy.

The optimal strategies x of the row player are those that earn the value v against every column:

    x^T A[:, j] >= v for every j,   x in the simplex

It is found in three steps. Linear programs say which rows any optimal strategy plays (the largest
weight of each row), and the mean of what they give says which columns hold all of them to v.
Then the entropy is maximised over these rows, by Newton's method on the multipliers y of the
columns, which are at least 0 where a column does not hold all of them:

    x_i proportional to exp((C y)_i),   min over y of log sum_i exp((C y)_i),   C = A - v
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from sparring.ops.least_squares import nonnegative
from sparring.ops.matrix_games import maximin
from sparring.ops.normal_form import in_range
from sparring.ops.simplex import softmax
from sparring.types import BoolArray, FloatArray

PLAYED = 1e-7  # weights above it are of rows that an optimal strategy may play
HELD = 1e-8  # columns earn less than this above the value where they hold a strategy to it
LEFT = 1e-17  # slope of a step at which the search ends
ALLOWED = 1e-8  # what a column's payoff may be off in the end
ROUNDING = 1e-10  # singular values below it are 0
STEPS = 200
SHRINKS = 40  # halvings of a step until the search ends


def most_even(matrix: FloatArray) -> FloatArray:
    """Return the row player's optimal strategy of the largest entropy, [m_0].

    Args:
        matrix: what the row player earns and the column player pays, [m_0, m_1], finite.

    Raises:
        ArithmeticError: a linear program was not solved, or the search came to no end.
    """
    (scaled,), _, half = in_range((matrix,))
    if half == 0.0:
        return np.full(len(matrix), 1.0 / len(matrix))
    value = maximin(scaled)[1]
    within = _within(scaled, value)
    rows = np.flatnonzero(within > PLAYED)
    held = within @ scaled - value < HELD
    found = np.zeros(len(matrix))
    found[rows] = _maximised(scaled[rows] - value, held)
    return found


def _within(matrix: FloatArray, value: float) -> FloatArray:
    """Return an optimal strategy that plays every row that any optimal one plays."""
    rows, columns = matrix.shape
    sums = np.zeros(rows)
    for row in range(rows):
        found = linprog(
            -np.eye(rows)[row],
            A_ub=-matrix.T,
            b_ub=np.full(columns, -value),
            A_eq=np.ones((1, rows)),
            b_eq=[1.0],
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10},
        )
        if not found.success:
            raise ArithmeticError(f"The linear program was not solved: {found.message}")
        sums += np.maximum(found.x, 0.0)
    within: FloatArray = sums / sums.sum()
    return within


def _maximised(payoffs: FloatArray, held: BoolArray) -> FloatArray:
    """Return the distribution of the largest entropy that earns at least 0 in every column.

    Args:
        payoffs: less the value, [rows, columns].
        held: whether a column earns exactly 0, [columns].

    Raises:
        ArithmeticError: the search came to no end.
    """
    left, sizes, _ = np.linalg.svd(payoffs[:, held], full_matrices=False)
    basis = left[:, sizes > ROUNDING]  # what earns 0 in it does so in all columns that hold
    payoffs = np.hstack([basis, payoffs[:, ~held]])
    held = np.arange(payoffs.shape[1]) < basis.shape[1]
    if not len(held):
        return np.full(len(payoffs), 1.0 / len(payoffs))
    multipliers = np.zeros(payoffs.shape[1])
    for _ in range(STEPS):
        moved = _stepped(payoffs, multipliers, held)
        if moved is None:
            break
        multipliers = moved
    weights = softmax(payoffs @ multipliers)
    earned = weights @ payoffs
    off = float(np.where(held, np.abs(earned), np.maximum(-earned, 0.0)).max())
    if off > ALLOWED:
        raise ArithmeticError(f"The entropy was not maximised: {off:g} is left.")
    return weights


def _stepped(payoffs: FloatArray, multipliers: FloatArray, held: BoolArray) -> FloatArray | None:
    """Return the multipliers after a step of Newton's method, or None where none helps.

    With w = exp(C y), the step of sum_i w_i is a least-squares problem in y, min over y' of
    sum_i w_i (C y' - C y + 1)_i^2, which keeps the signs.
    """
    values = payoffs @ multipliers
    roots = np.exp((values - values.max()) / 2)
    signed = np.hstack([payoffs[:, held], -payoffs[:, held], payoffs[:, ~held]])
    count = int(held.sum())
    found = nonnegative(roots[:, None] * signed, roots * (values - 1.0))
    wanted = np.zeros_like(multipliers)
    wanted[held] = found[:count] - found[count : 2 * count]
    wanted[~held] = found[2 * count :]
    slope = float(softmax(values) @ payoffs @ (wanted - multipliers))
    before, size = _log_sum(values), 1.0
    for _ in range(SHRINKS if slope < -LEFT else 0):
        moved = multipliers + size * (wanted - multipliers)
        if _log_sum(payoffs @ moved) <= before + 1e-4 * size * slope:
            return moved
        size /= 2
    return None


def _log_sum(values: FloatArray) -> float:
    """Return the logarithm of the sum of exponentials."""
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))

"""Optimal strategies of a matrix game, by linear programming.

A[i, j] is what the row player earns and the column player pays. An optimal strategy x of the row
player earns the value v against every column:

    max over x in the simplex, v of v   so that   x^T A[:, j] >= v for every j

Least squares with unknowns that are at least 0, also where columns depend on each other.

The active-set method of Lawson and Hanson, 1974. SciPy's ``nnls`` fails where columns are linearly
dependent, as those of cones that contain a line are, and ends the process where there is none.

The correlated equilibrium of a game in normal form that has the largest Gini impurity.

Equilibria are the distributions p over cells with A p <= 0, a row of A per deviation. Without their
sum they are a cone K. The smallest sum of squares among those of sum 1 points where the projection
of the vector of ones onto K does, and by Moreau's theorem

    projection onto K of 1 = 1 - G z,   G = [A^T, -I],   z = argmin over z >= 0 of |1 - G z|^2

which is a least-squares problem with z at least 0, solved exactly.

The optimal strategy of a matrix game that has the largest entropy.

The optimal strategies x of the row player are those that earn the value v against every column:

    x^T A[:, j] >= v for every j,   x in the simplex

It is found in three steps. Linear programs say which rows any optimal strategy plays (the largest
weight of each row), and the mean of what they give says which columns hold all of them to v.
Then the entropy is maximised over these rows, by Newton's method on the multipliers y of the
columns, which are at least 0 where a column does not hold all of them:

    x_i proportional to exp((C y)_i),   min over y of log sum_i exp((C y)_i),   C = A - v
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import linprog

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.normal_form import in_range, softmax

NEGLIGIBLE = 1e-11  # a column whose product with the rest is at most this is not taken in
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
        if not size or slopes[best] <= NEGLIGIBLE:
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
    """Return the least-squares solution in the columns that are taken, 0 elsewhere, [n]. A column
    with a number in one row alone mends that row, whatever the others do: it is left out with its
    row, which leaves few numbers of the large problems of this package."""
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
    """Return the multipliers after a step of Newton's method, or None where none helps. With w =
    exp(C y), the step of sum_i w_i is a least-squares problem in y, min over y' of sum_i w_i (C y'
    - C y + 1)_i^2, which keeps the signs."""
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
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))

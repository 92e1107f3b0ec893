"""Optimal strategies of a matrix game, by linear programming.

A[i, j] is the payoff that the column player pays to the row player. An optimal strategy x of the
row player earns the value v against every column:

    max over x in the simplex, v of v   so that   x^T A[:, j] >= v for every j

``nonnegative_least_squares`` solves least squares with unknowns of at least 0 by the active-set
method of Lawson and Hanson, 1974. SciPy's ``nnls`` fails for linearly dependent columns, which
occur in cones that contain a line, and crashes without columns.

``max_gini_equilibrium`` is the correlated equilibrium of largest Gini impurity. Equilibria are the
distributions p over cells with A p <= 0, a row of A per deviation; without the sum of 1 they form a
cone K. The equilibrium of smallest sum of squares has the direction of the projection of the vector
of ones onto K, and by Moreau's theorem

    projection onto K of 1 = 1 - G z,   G = [A^T, -I],   z = argmin over z >= 0 of |1 - G z|^2

which ``nonnegative_least_squares`` solves exactly.

``max_entropy_strategy`` is the optimal strategy of largest entropy. A linear program per row gives
the rows that some optimal strategy plays (the largest weight of each row); the mean of their
solutions gives the tight columns, against which every optimal strategy earns exactly v. Newton's
method then maximises the entropy over these rows, with multipliers y of the columns, at least 0 for
columns that are not tight:

    x_i proportional to exp((C y)_i),   min over y of log sum_i exp((C y)_i),   C = A - v
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import linprog

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.normal_form import in_range, softmax

ENTRY_TOLERANCE = 1e-11  # a column is used only if its product with the residual is larger
DEPENDENCE_TOLERANCE = 1e-11  # singular values below this share of the largest count as 0


def nonnegative_least_squares(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Return z at least 0 with the smallest |matrix z - target|, [n].

    Args:
        matrix: [m, n], columns with norms of about 1; n may be 0.
        target: [m].

    Raises:
        ArithmeticError: the search did not converge.
    """
    size = matrix.shape[1]
    single_row = np.where((matrix != 0).sum(axis=0) == 1, np.abs(matrix).argmax(axis=0), -1)
    solution, is_used, is_excluded = np.zeros(size), np.zeros(size, bool), np.zeros(size, bool)
    for _ in range(10 * size + 1):
        slopes = matrix.T @ (target - matrix @ solution)
        slopes[is_used | is_excluded] = -np.inf
        best_column = int(slopes.argmax()) if size else 0
        if not size or slopes[best_column] <= ENTRY_TOLERANCE:
            return solution
        is_used[best_column] = True
        trial = _solve(matrix, target, is_used, single_row)
        if trial[best_column] <= 0.0:  # by rounding: the column depends on the used columns
            is_used[best_column], is_excluded[best_column] = False, True
            continue
        is_excluded[:] = False
        while trial[is_used].min() <= 0.0:
            columns = np.flatnonzero(is_used & (trial <= 0.0))
            shares = solution[columns] / np.maximum(solution[columns] - trial[columns], 1e-300)
            solution = solution + shares.min() * (trial - solution)
            is_used[columns[shares == shares.min()]] = False
            solution[~is_used] = 0.0
            if not is_used.any():
                break
            trial = _solve(matrix, target, is_used, single_row)
        solution = np.where(is_used, trial, 0.0)
    raise ArithmeticError("The least-squares problem was not solved.")


def _solve(
    matrix: FloatArray, target: FloatArray, is_used: BoolArray, single_row: IntArray
) -> FloatArray:
    """Return the least-squares solution in the columns in use, 0 elsewhere, [n].

    A column with a single entry solves its row exactly, so the large solve omits both.
    """
    solution = np.zeros(matrix.shape[1])
    singles = np.flatnonzero(is_used & (single_row >= 0))
    others = np.flatnonzero(is_used & (single_row < 0))
    rows = np.ones(len(target), dtype=bool)
    rows[single_row[singles]] = False
    if len(others) and rows.any():
        block, tolerance = matrix[np.ix_(rows, others)], DEPENDENCE_TOLERANCE
        solution[others] = lstsq(block, target[rows], cond=tolerance, lapack_driver="gelsy")[0]
    single_rows = single_row[singles]
    remainder = target[single_rows] - matrix[np.ix_(single_rows, others)] @ solution[others]
    solution[singles] = remainder / matrix[single_rows, singles]
    return solution


def maximin(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return an optimal strategy of the row player, [m_0], and the value.

    The strategy is a vertex of the set of optimal strategies, or uniform if all entries are equal.

    Args:
        matrix: payoff of the row player, [m_0, m_1], finite.

    Raises:
        ArithmeticError: the linear program was not solved.
    """
    (scaled_matrix,), (middle,), scale = in_range((matrix,))
    rows, columns = matrix.shape
    if scale == 0.0:
        return np.full(rows, 1.0 / rows), float(middle)
    program = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-scaled_matrix.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs-ds",
    )
    if not program.success:
        raise ArithmeticError(f"The linear program was not solved: {program.message}")
    weights: FloatArray = np.maximum(program.x[:-1], 0.0)
    strategy = weights / weights.sum()
    return strategy, float(middle + scale * (strategy @ scaled_matrix).min())


MIN_GAIN = 1e-12  # smaller gains of a deviation count as 0, of payoffs in [-1, 1]


def max_gini_equilibrium(payoffs: Sequence[FloatArray], *, recommended: bool) -> FloatArray:
    """Return the equilibrium with the smallest sum of squares, [m_0, ..., m_{n-1}].

    Args:
        payoffs: payoffs to each side, [m_0, ..., m_{n-1}], finite.
        recommended: whether deviations may depend on the recommended choice (correlated
            equilibria) or not (coarse correlated equilibria).
    """
    tables, _, _ = in_range(payoffs)
    shape = tables[0].shape
    gains = np.array(list(_gains(tables, recommended=recommended))).reshape(-1, tables[0].size)
    sizes = np.abs(gains).max(axis=1, initial=0.0)
    scaled_gains = gains[sizes > MIN_GAIN] / sizes[sizes > MIN_GAIN, None]
    cone = np.hstack([scaled_gains.T, -np.eye(scaled_gains.shape[1])])
    weights = np.ones(len(cone)) - cone @ nonnegative_least_squares(cone, np.ones(len(cone)))
    positive_weights = np.maximum(weights, 0.0).reshape(shape)
    equilibrium: FloatArray = positive_weights / positive_weights.sum()
    return equilibrium


def _gains(tables: Sequence[FloatArray], *, recommended: bool) -> Iterator[FloatArray]:
    """Yield the gain of each deviation in each cell, [m_0, ..., m_{n-1}]."""
    for side, table in enumerate(tables):
        size = table.shape[side]
        for alternative in range(size if size > 1 else 0):
            gain = np.take(table, [alternative], axis=side) - table
            if not recommended:
                yield gain
                continue
            for recommendation in range(size):
                if recommendation != alternative:
                    masked_gain = np.zeros_like(gain)
                    cells = tuple(
                        recommendation if s == side else slice(None) for s in range(gain.ndim)
                    )
                    masked_gain[cells] = gain[cells]
                    yield masked_gain


MIN_PLAYED_WEIGHT = 1e-7  # weight above which an optimal strategy may play a row
TIGHT_TOLERANCE = 1e-8  # a column is tight if the strategy earns less than this above the value
MIN_SLOPE = 1e-17  # slope of a step at which the search ends
MAX_PAYOFF_ERROR = 1e-8  # largest error of a column's payoff at the end
MIN_SINGULAR_VALUE = 1e-10  # smaller singular values count as 0
MAX_STEPS = 200
MAX_HALVINGS = 40  # halvings of a step until the search ends


def max_entropy_strategy(matrix: FloatArray) -> FloatArray:
    """Return the optimal strategy of the row player that has the largest entropy, [m_0].

    Args:
        matrix: payoff of the row player, which the column player pays, [m_0, m_1], finite.

    Raises:
        ArithmeticError: a linear program was not solved, or the search did not converge.
    """
    (scaled_matrix,), _, half_range = in_range((matrix,))
    if half_range == 0.0:
        return np.full(len(matrix), 1.0 / len(matrix))
    value = maximin(scaled_matrix)[1]
    interior_strategy = _interior_optimum(scaled_matrix, value)
    rows = np.flatnonzero(interior_strategy > MIN_PLAYED_WEIGHT)
    is_tight = interior_strategy @ scaled_matrix - value < TIGHT_TOLERANCE
    strategy = np.zeros(len(matrix))
    strategy[rows] = _maximise(scaled_matrix[rows] - value, is_tight)
    return strategy


def _interior_optimum(matrix: FloatArray, value: float) -> FloatArray:
    """Return an optimal strategy that plays every row that some optimal strategy plays."""
    rows, columns = matrix.shape
    sums = np.zeros(rows)
    for row in range(rows):
        program = linprog(
            -np.eye(rows)[row],
            A_ub=-matrix.T,
            b_ub=np.full(columns, -value),
            A_eq=np.ones((1, rows)),
            b_eq=[1.0],
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10},
        )
        if not program.success:
            raise ArithmeticError(f"The linear program was not solved: {program.message}")
        sums += np.maximum(program.x, 0.0)
    strategy: FloatArray = sums / sums.sum()
    return strategy


def _maximise(payoffs: FloatArray, is_tight: BoolArray) -> FloatArray:
    """Return the distribution of the largest entropy that earns at least 0 in every column.

    Args:
        payoffs: minus the value, [rows, columns].
        is_tight: whether a column must earn exactly 0, [columns].
    """
    vectors, sizes, _ = np.linalg.svd(payoffs[:, is_tight], full_matrices=False)
    # a strategy that earns 0 in these columns earns 0 in all tight columns
    basis = vectors[:, sizes > MIN_SINGULAR_VALUE]
    payoffs = np.hstack([basis, payoffs[:, ~is_tight]])
    is_tight = np.arange(payoffs.shape[1]) < basis.shape[1]
    if not len(is_tight):
        return np.full(len(payoffs), 1.0 / len(payoffs))
    multipliers = np.zeros(payoffs.shape[1])
    for _ in range(MAX_STEPS):
        next_multipliers = _step(payoffs, multipliers, is_tight)
        if next_multipliers is None:
            break
        multipliers = next_multipliers
    weights = softmax(payoffs @ multipliers)
    column_payoffs = weights @ payoffs
    error = float(
        np.where(is_tight, np.abs(column_payoffs), np.maximum(-column_payoffs, 0.0)).max()
    )
    if error > MAX_PAYOFF_ERROR:
        raise ArithmeticError(f"The entropy was not maximised: a column is off by {error:g}.")
    return weights


def _step(payoffs: FloatArray, multipliers: FloatArray, is_tight: BoolArray) -> FloatArray | None:
    """Return the multipliers after a step of Newton's method; None if no step helps.

    With w = exp(C y), the step of sum_i w_i is a least-squares problem that respects the signs:

        min over y' of sum_i w_i (C y' - C y + 1)_i^2
    """
    values = payoffs @ multipliers
    roots = np.exp((values - values.max()) / 2)
    signed_payoffs = np.hstack([payoffs[:, is_tight], -payoffs[:, is_tight], payoffs[:, ~is_tight]])
    count = int(is_tight.sum())
    solution = nonnegative_least_squares(roots[:, None] * signed_payoffs, roots * (values - 1.0))
    target = np.zeros_like(multipliers)
    target[is_tight] = solution[:count] - solution[count : 2 * count]
    target[~is_tight] = solution[2 * count :]
    slope = float(softmax(values) @ payoffs @ (target - multipliers))
    start_value, step_size = _log_sum(values), 1.0
    for _ in range(MAX_HALVINGS if slope < -MIN_SLOPE else 0):
        next_multipliers = multipliers + step_size * (target - multipliers)
        if _log_sum(payoffs @ next_multipliers) <= start_value + 1e-4 * step_size * slope:
            return next_multipliers
        step_size /= 2
    return None


def _log_sum(values: FloatArray) -> float:
    largest_value = float(values.max())
    return largest_value + float(np.log(np.exp(values - largest_value).sum()))

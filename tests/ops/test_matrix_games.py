import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sparring.ops.matrix_games import nonnegative_least_squares


@pytest.mark.parametrize(
    ("matrix", "target", "solution"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0], [2, 3]),
        ([[1.0, 0.0], [0.0, 1.0]], [2.0, -3.0], [2, 0]),
        ([[1.0], [1.0]], [1.0, 3.0], [2]),
        ([[1.0, 1.0], [0.0, 1.0]], [3.0, 1.0], [2, 1]),
        ([[1.0, 1.0], [0.0, 1.0]], [1.0, 3.0], [0, 2]),
        ([[0.0], [0.0]], [1.0, 1.0], [0]),
        (np.zeros((2, 0)), [1.0, 1.0], []),
    ],
)
def test_nonnegative_least_squares_by_hand(matrix, target, solution):
    np.testing.assert_allclose(nonnegative_least_squares(np.array(matrix), np.array(target)), solution, atol=1e-12)


@settings(deadline=None)
@given(st.data())
def test_the_solution_meets_the_optimality_conditions(data):
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 8))
    matrix = data.draw(arrays.arrays(np.float64, (rows, columns), elements=st.integers(-2, 2)))
    target = data.draw(arrays.arrays(np.float64, rows, elements=st.integers(-3, 3)))
    matrix = np.hstack(
        [matrix, -matrix[:, :2], -np.eye(rows)[:, : data.draw(st.integers(0, rows))]]
    )  # opposite columns, and columns with one entry
    solution = nonnegative_least_squares(matrix, target)
    slopes = matrix.T @ (target - matrix @ solution)
    assert solution.min(initial=0.0) >= 0
    assert slopes.max(initial=0.0) <= 1e-8 and np.abs(slopes * solution).max(initial=0.0) <= 1e-8

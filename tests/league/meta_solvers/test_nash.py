import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from sparring.ops.matrix_games import maximin
from tests.league.meta_solvers.meta_games import (
    CYCLE,
    FOUR,
    HARD,
    THREE_SIDES,
    gains,
    matrices,
    squares,
)

SOLVE = bind("league.meta_solvers", "nash")


@pytest.mark.parametrize(
    ("matrix", "first", "second"),
    [
        (CYCLE, [1 / 3] * 3, [1 / 3] * 3),
        ([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),  # scissors pay twice
        (FOUR, [1 / 3, 1 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3, 0]),
        ([[2, -1], [-1, 1]], [0.4, 0.6], [0.4, 0.6]),
        ([[3, 0], [1, 2]], [0.25, 0.75], [0.5, 0.5]),
        ([[1, 2], [0, 5]], [1, 0], [1, 0]),  # a saddle point
    ],
)
def test_by_hand(matrix, first, second):
    sides = SOLVE(of_matrix(matrix)).sides
    np.testing.assert_allclose(sides[0], first, atol=1e-9)
    np.testing.assert_allclose(sides[1], second, atol=1e-9)


def test_the_value_by_hand():
    assert maximin(np.array([[3.0, 0.0], [1.0, 2.0]]))[1] == pytest.approx(1.5)
    assert maximin(np.array(FOUR))[1] == pytest.approx(0.0, abs=1e-12)
    assert maximin(np.full((2, 2), 7.0))[1] == 7.0


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs(name):
    game = HARD[name]
    size = np.ptp(game.payoffs[0])
    assert gains(game, SOLVE(game)).max() <= 1e-9 * size


def test_payoffs_of_a_constant_sum_are_those_less_half_of_it():
    wins = (np.array(FOUR) + 1) / 2
    sides = SOLVE(MetaGame(payoffs=(wins, 1 - wins))).sides
    np.testing.assert_allclose(sides, [[1 / 3, 1 / 3, 1 / 3, 0]] * 2, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(matrices())
def test_nobody_gains(matrix):
    game = of_matrix(matrix)
    assert gains(game, SOLVE(game)).max() <= 1e-8


@settings(deadline=None, max_examples=30)
@given(squares())
def test_a_symmetric_game_has_value_0_and_one_strategy(matrix):
    game = of_matrix(matrix)
    first, second = SOLVE(game).sides
    assert game.symmetric and first.tolist() == second.tolist()
    assert (first @ matrix).min() >= -1e-8


@settings(deadline=None, max_examples=30)
@given(matrix=matrices(), scale=st.sampled_from([0.5, 4.0, 1024.0]))
def test_units_do_not_matter(matrix, scale):
    before, after = SOLVE(of_matrix(matrix)), SOLVE(of_matrix(scale * matrix))
    assert all(np.array_equal(a, b) for a, b in zip(before.sides, after.sides, strict=True))


def test_other_games_are_refused():
    with pytest.raises(GameError, match=r"'nash' is for two sides, and this meta-game has 3\. Take correlated"):
        SOLVE(THREE_SIDES)
    with pytest.raises(
        GameError, match=r"'nash' needs payoffs of two sides that sum to a constant; here the sum goes from -2 to 4\."
    ):
        SOLVE(MetaGame(payoffs=([[2.0, 0.0]], [[2.0, -2.0]])))

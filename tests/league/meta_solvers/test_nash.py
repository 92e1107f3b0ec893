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
    FOUR_MEMBERS,
    HARD_GAMES,
    THREE_SIDES,
    antisymmetric_matrices,
    gains,
    matrices,
)

SOLVE = bind("league.meta_solvers", "nash")


@pytest.mark.parametrize(
    ("matrix", "row_weights", "column_weights"),
    [
        (CYCLE, [1 / 3] * 3, [1 / 3] * 3),
        (
            [[0, -1, 2], [1, 0, -1], [-2, 1, 0]],
            [0.25, 0.5, 0.25],
            [0.25, 0.5, 0.25],
        ),  # rock, paper, scissors, where rock against scissors pays 2
        (FOUR_MEMBERS, [1 / 3, 1 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3, 0]),
        ([[2, -1], [-1, 1]], [0.4, 0.6], [0.4, 0.6]),
        ([[3, 0], [1, 2]], [0.25, 0.75], [0.5, 0.5]),
        ([[1, 2], [0, 5]], [1, 0], [1, 0]),  # a saddle point
    ],
)
def test_equilibria_by_hand(matrix, row_weights, column_weights):
    sides = SOLVE(of_matrix(matrix)).sides
    np.testing.assert_allclose(sides[0], row_weights, atol=1e-9)
    np.testing.assert_allclose(sides[1], column_weights, atol=1e-9)


def test_the_value_by_hand():
    assert maximin(np.array([[3.0, 0.0], [1.0, 2.0]]))[1] == pytest.approx(1.5)
    assert maximin(np.array(FOUR_MEMBERS))[1] == pytest.approx(0.0, abs=1e-12)
    assert maximin(np.full((2, 2), 7.0))[1] == 7.0


@pytest.mark.parametrize("name", HARD_GAMES)
def test_no_side_gains_in_hard_games(name):
    game = HARD_GAMES[name]
    payoff_range = np.ptp(game.payoffs[0])
    assert gains(game, SOLVE(game)).max() <= 1e-9 * payoff_range


def test_a_constant_sum_game_has_the_equilibrium_of_its_zero_sum_game():
    wins = (np.array(FOUR_MEMBERS) + 1) / 2
    sides = SOLVE(MetaGame(payoffs=(wins, 1 - wins))).sides
    np.testing.assert_allclose(sides, [[1 / 3, 1 / 3, 1 / 3, 0]] * 2, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(matrices())
def test_no_side_gains(matrix):
    game = of_matrix(matrix)
    assert gains(game, SOLVE(game)).max() <= 1e-8


@settings(deadline=None, max_examples=30)
@given(antisymmetric_matrices())
def test_a_symmetric_game_has_value_0_and_one_strategy(matrix):
    game = of_matrix(matrix)
    row_weights, column_weights = SOLVE(game).sides
    assert game.symmetric and row_weights.tolist() == column_weights.tolist()
    assert (row_weights @ matrix).min() >= -1e-8


@settings(deadline=None, max_examples=30)
@given(matrix=matrices(), scale=st.sampled_from([0.5, 4.0, 1024.0]))
def test_the_scale_of_payoffs_does_not_matter(matrix, scale):
    strategy, scaled_strategy = SOLVE(of_matrix(matrix)), SOLVE(of_matrix(scale * matrix))
    assert all(np.array_equal(a, b) for a, b in zip(strategy.sides, scaled_strategy.sides, strict=True))


def test_other_games_are_refused():
    with pytest.raises(GameError, match=r"'nash' is for two sides, and this meta-game has 3\. Take correlated"):
        SOLVE(THREE_SIDES)
    with pytest.raises(
        GameError, match=r"'nash' needs payoffs of two sides that sum to a constant; here the sum goes from -2 to 4\."
    ):
        SOLVE(MetaGame(payoffs=([[2.0, 0.0]], [[2.0, -2.0]])))

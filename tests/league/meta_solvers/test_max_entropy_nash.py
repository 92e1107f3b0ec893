import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from sparring.ops.matrix_games import max_entropy_strategy, maximin
from tests.league.meta_solvers.meta_games import CYCLE, FOUR_MEMBERS, HARD_GAMES, THREE_SIDES, gains, matrices

SOLVE = bind("league.meta_solvers", "max_entropy_nash")
GRID = 40


def entropy(weights):
    positive = np.maximum(weights, 1e-300)
    return -(positive * np.log(positive)).sum(axis=-1)


def grid_of_mixtures(size):
    cuts = itertools.combinations(range(GRID + size - 1), size - 1)
    ends = np.array([(-1, *cut, GRID + size - 1) for cut in cuts])
    return (np.diff(ends, axis=1) - 1) / GRID


@pytest.mark.parametrize(
    ("matrix", "row_weights", "column_weights"),
    [
        (CYCLE, [1 / 3] * 3, [1 / 3] * 3),
        (FOUR_MEMBERS, [1 / 3, 1 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3, 0]),
        ([[2, -1], [-1, 1]], [0.4, 0.6], [0.4, 0.6]),
        ([[0, 0], [0, 0]], [0.5, 0.5], [0.5, 0.5]),
        ([[1, 2], [1, 2], [0, 9]], [0.5, 0.5, 0], [1, 0]),
        ([[1, -1], [-1, 2], [0, 0]], [0.6, 0.4, 0], [0.6, 0.4]),
        ([[0, 0], [0, 3], [0, -1]], [1 / 3, 1 / 3, 1 / 3], [1, 0]),
    ],
)
def test_equilibria_of_largest_entropy_by_hand(matrix, row_weights, column_weights):
    sides = SOLVE(of_matrix(matrix)).sides
    np.testing.assert_allclose(sides[0], row_weights, atol=1e-8)
    np.testing.assert_allclose(sides[1], column_weights, atol=1e-8)


def test_a_binding_constraint_by_hand():
    # the last column requires 3 x_0 >= 1; the largest entropy has x_0 = 1/3
    np.testing.assert_allclose(max_entropy_strategy(np.array([[0, 2.0], [0, -1], [0, -1]])), [1 / 3] * 3, atol=1e-9)
    # here the last column requires x_0 >= 1/2, and the other rows share the other half
    np.testing.assert_allclose(
        max_entropy_strategy(np.array([[0, 1.0], [0, -1], [0, -1]])), [0.5, 0.25, 0.25], atol=1e-9
    )


@pytest.mark.parametrize("name", HARD_GAMES)
def test_no_side_gains_in_hard_games(name):
    game = HARD_GAMES[name]
    assert gains(game, SOLVE(game)).max() <= 1e-7 * np.ptp(game.payoffs[0])


def test_copies_share_the_weight():
    (weights, _) = SOLVE(HARD_GAMES["copies"]).sides
    np.testing.assert_allclose(weights, [1 / 6] * 6, atol=1e-9)


def test_nearly_equal_constraints_give_an_equilibrium():
    matrix = np.array([[-0.075, 0.83, -1.36], [0.915, -0.6, 0.36], [0.7211751, 0.7211057, 0.876]])
    assert gains(of_matrix(matrix), SOLVE(of_matrix(matrix))).max() < 1e-7


@settings(deadline=None, max_examples=15)
@given(matrices(max_size=4))
def test_the_solution_is_an_equilibrium_with_at_least_the_entropy_of_nash(matrix):
    game = of_matrix(matrix)
    strategy, nash_strategy = SOLVE(game), bind("league.meta_solvers", "nash")(game)
    assert gains(game, strategy).max() <= 1e-6
    for side, nash_side in zip(strategy.sides, nash_strategy.sides, strict=True):
        assert entropy(side) >= entropy(nash_side) - 1e-6


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_no_optimal_mixture_of_a_grid_has_more_entropy(data):
    rows = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    matrix = np.array(data.draw(st.lists(rows, min_size=3, max_size=3)), dtype=float)
    value, mixtures = maximin(matrix)[1], grid_of_mixtures(3)
    optimal_mixtures = mixtures[(mixtures @ matrix >= value - 1e-9).all(axis=1)]
    assert entropy(max_entropy_strategy(matrix)) >= entropy(optimal_mixtures).max(initial=0.0) - 1e-7


@settings(deadline=None, max_examples=10)
@given(matrix=matrices(max_size=4), order=st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(matrix, order):
    permutation = order.sample(range(len(matrix)), len(matrix))
    np.testing.assert_allclose(
        max_entropy_strategy(matrix[permutation]), max_entropy_strategy(matrix)[permutation], atol=1e-6
    )


def test_other_games_are_refused():
    with pytest.raises(GameError, match="'max_entropy_nash' is for two sides"):
        SOLVE(THREE_SIDES)
    with pytest.raises(GameError, match="'max_entropy_nash' needs payoffs of two sides that sum to a constant"):
        SOLVE(MetaGame(payoffs=([[2.0, 0.0]], [[2.0, -2.0]])))

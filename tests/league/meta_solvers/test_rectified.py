import numpy as np
import pytest
from hypothesis import given, settings

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import CYCLE, FOUR_MEMBERS, HARD_GAMES, THREE_SIDES, antisymmetric_matrices

SOLVE = bind("league.meta_solvers", "rectified")
SYMMETRIC = [name for name, game in HARD_GAMES.items() if game.symmetric]


def test_rows_of_a_cycle_by_hand():
    strategy = SOLVE(of_matrix(CYCLE))  # each member trains against itself and the member that it beats
    np.testing.assert_allclose(strategy.rows[0], [[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    # rock against scissors pays 2: the equilibrium is 1/4, 1/2, 1/4
    strategy = SOLVE(of_matrix([[0, -1, 2], [1, 0, -1], [-2, 1, 0]]))
    np.testing.assert_allclose(strategy.rows[1], [[0.5, 0, 0.5], [1 / 3, 2 / 3, 0], [0, 2 / 3, 1 / 3]])


def test_a_member_outside_the_equilibrium_has_a_row_of_0():
    strategy = SOLVE(of_matrix(FOUR_MEMBERS))
    assert strategy.sides[0][3] == 0
    np.testing.assert_allclose(strategy.rows[0][3], [0, 0, 0, 0])
    np.testing.assert_allclose(strategy.rows[0][0], [0.5, 0, 0.5, 0], atol=1e-9)


def test_the_equilibrium_is_that_of_nash():
    nash_strategy = bind("league.meta_solvers", "nash")(of_matrix(FOUR_MEMBERS))
    assert SOLVE(of_matrix(FOUR_MEMBERS)).sides[0].tolist() == nash_strategy.sides[0].tolist()


def test_a_member_that_beats_all_plays_only_itself():
    strategy = SOLVE(HARD_GAMES["dominated"])
    assert strategy.rows[0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_rows_of_hard_games_are_valid(name):
    game, strategy = HARD_GAMES[name], SOLVE(HARD_GAMES[name])
    is_played = strategy.sides[0] > 0
    np.testing.assert_allclose(strategy.rows[0].sum(axis=1), is_played.astype(float))
    assert not (strategy.rows[0] * (game.payoffs[0] < 0)).any()


@settings(deadline=None, max_examples=30)
@given(antisymmetric_matrices())
def test_a_row_has_weight_only_on_itself_and_on_beaten_or_tied_members(matrix):
    strategy = SOLVE(of_matrix(matrix))
    rows, is_played = strategy.rows[0], strategy.sides[0] > 0
    assert not (rows * (matrix < 0)).any() and not rows[~is_played].any() and not rows[:, ~is_played].any()
    assert (np.diag(rows)[is_played] > 0).all()


def test_other_games_are_refused():
    with pytest.raises(
        GameError, match=r"'rectified' is for one population .* use MetaGame\(symmetric=True\), or take nash"
    ):
        SOLVE(of_matrix([[1.0, 2.0]]))
    with pytest.raises(GameError, match="'rectified' is for two sides"):
        SOLVE(THREE_SIDES)
    with pytest.raises(GameError, match="'rectified' needs payoffs of two sides that sum to a constant"):
        SOLVE(MetaGame(payoffs=([[4.0, 0.0], [3.0, 2.0]], [[4.0, 3.0], [0.0, 2.0]]), symmetric=True))

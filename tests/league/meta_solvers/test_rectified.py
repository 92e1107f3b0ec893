import numpy as np
import pytest
from hypothesis import given, settings

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import CYCLE, FOUR, HARD, THREE_SIDES, squares

SOLVE = bind("league.meta_solvers", "rectified")
SYMMETRIC = [name for name, game in HARD.items() if game.symmetric]


def test_by_hand():
    strategy = SOLVE(of_matrix(CYCLE))  # each answers itself and the one it beats
    np.testing.assert_allclose(strategy.rows[0], [[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    # scissors pay twice: the equilibrium is 1/4, 1/2, 1/4
    strategy = SOLVE(of_matrix([[0, -1, 2], [1, 0, -1], [-2, 1, 0]]))
    np.testing.assert_allclose(strategy.rows[1], [[0.5, 0, 0.5], [1 / 3, 2 / 3, 0], [0, 2 / 3, 1 / 3]])


def test_who_is_not_in_the_equilibrium_has_no_row():
    strategy = SOLVE(of_matrix(FOUR))
    assert strategy.sides[0][3] == 0
    np.testing.assert_allclose(strategy.rows[0][3], [0, 0, 0, 0])
    np.testing.assert_allclose(strategy.rows[0][0], [0.5, 0, 0.5, 0], atol=1e-9)


def test_the_equilibrium_is_that_of_nash():
    known = bind("league.meta_solvers", "nash")(of_matrix(FOUR))
    assert SOLVE(of_matrix(FOUR)).sides[0].tolist() == known.sides[0].tolist()


def test_one_member_that_beats_all_answers_itself():
    strategy = SOLVE(HARD["dominated"])
    assert strategy.rows[0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_hard_inputs(name):
    game, strategy = HARD[name], SOLVE(HARD[name])
    played = strategy.sides[0] > 0
    np.testing.assert_allclose(strategy.rows[0].sum(axis=1), played.astype(float))
    assert not (strategy.rows[0] * (game.payoffs[0] < 0)).any()


@settings(deadline=None, max_examples=30)
@given(squares())
def test_a_row_is_of_members_that_are_beaten_or_tied_and_holds_oneself(matrix):
    strategy = SOLVE(of_matrix(matrix))
    rows, played = strategy.rows[0], strategy.sides[0] > 0
    assert not (rows * (matrix < 0)).any() and not rows[~played].any() and not rows[:, ~played].any()
    assert (np.diag(rows)[played] > 0).all()


def test_other_games_are_refused():
    with pytest.raises(
        GameError, match=r"'rectified' is for one population .* give MetaGame\(symmetric=True\), or take nash"
    ):
        SOLVE(of_matrix([[1.0, 2.0]]))
    with pytest.raises(GameError, match="'rectified' is for two sides"):
        SOLVE(THREE_SIDES)
    with pytest.raises(GameError, match="'rectified' needs payoffs of two sides that sum to a constant"):
        SOLVE(MetaGame(payoffs=([[4.0, 0.0], [3.0, 2.0]], [[4.0, 3.0], [0.0, 2.0]]), symmetric=True))

import numpy as np
import pyspiel
import pytest
from hypothesis import given, settings
from open_spiel.python.algorithms.fictitious_play import XFPSolver

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import HARD, THREE_SIDES, gains, matrices


def solved(game, rounds=1000):
    return bind("league.meta_solvers", "fictitious_play", {"rounds": rounds})(game)


def test_rounds_by_hand():
    game = of_matrix([[2.0, 0.0], [0.0, 1.0]])
    assert [side.tolist() for side in solved(game, 1).sides] == [[0.5, 0.5], [0.5, 0.5]]
    # rows earn 1 and 1/2, columns cost 1 and 1/2: row 0 and column 1 join, then row 1 (3/4 to 1/2) and column 1
    assert [side.tolist() for side in solved(game, 2).sides] == [[0.75, 0.25], [0.25, 0.75]]
    np.testing.assert_allclose(solved(game, 3).sides, [[0.5, 0.5], [1 / 6, 5 / 6]])


def test_it_is_openspiels_on_the_tree_of_the_game():
    matrix = np.array([[3.1, -1.7, 0.4], [-2.3, 1.9, 0.6]])
    tree = pyspiel.convert_to_turn_based(pyspiel.create_matrix_game(matrix.tolist(), (-matrix).tolist()))
    solver, states = XFPSolver(tree), [tree.new_initial_state(), tree.new_initial_state().child(0)]
    for rounds in range(1, 40):
        policy = solver.average_policy()
        known = [list(policy.action_probabilities(state).values()) for state in states]
        for ours, theirs in zip(solved(of_matrix(matrix), rounds).sides, known, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
        solver.iteration()


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs(name):
    game = HARD[name]
    assert gains(game, solved(game)).max() <= 0.05 * np.ptp(game.payoffs[0]) + 1e-9


def test_three_sides_add_their_best_members():
    first, second, third = solved(THREE_SIDES, 2).sides  # side 2 earns nothing anywhere
    np.testing.assert_allclose(np.concatenate([first, third]), [0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(second, [2 / 3, 1 / 6, 1 / 6])


@settings(deadline=None, max_examples=10)
@given(matrices(most=3))
def test_two_opposed_sides_come_near_an_equilibrium(matrix):
    game = of_matrix(matrix)
    assert gains(game, solved(game)).max() <= 0.1 * np.ptp(matrix) + 1e-9

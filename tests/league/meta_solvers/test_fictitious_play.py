import numpy as np
import pyspiel
import pytest
from hypothesis import given, settings
from open_spiel.python.algorithms.fictitious_play import XFPSolver

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import HARD_GAMES, THREE_SIDES, gains, matrices


def solve(game, rounds=1000):
    return bind("league.meta_solvers", "fictitious_play", {"rounds": rounds})(game)


def test_rounds_by_hand():
    game = of_matrix([[2.0, 0.0], [0.0, 1.0]])
    assert [side.tolist() for side in solve(game, 1).sides] == [[0.5, 0.5], [0.5, 0.5]]
    # rows earn 1 and 1/2, columns cost 1 and 1/2: row 0 and column 1 are best; then row 1 (3/4 to 1/2) and column 1
    assert [side.tolist() for side in solve(game, 2).sides] == [[0.75, 0.25], [0.25, 0.75]]
    np.testing.assert_allclose(solve(game, 3).sides, [[0.5, 0.5], [1 / 6, 5 / 6]])


def test_fictitious_play_equals_openspiel_on_the_game_tree():
    matrix = np.array([[3.1, -1.7, 0.4], [-2.3, 1.9, 0.6]])
    tree = pyspiel.convert_to_turn_based(pyspiel.create_matrix_game(matrix.tolist(), (-matrix).tolist()))
    solver, states = XFPSolver(tree), [tree.new_initial_state(), tree.new_initial_state().child(0)]
    for rounds in range(1, 40):
        policy = solver.average_policy()
        expected = [list(policy.action_probabilities(state).values()) for state in states]
        for side, expected_side in zip(solve(of_matrix(matrix), rounds).sides, expected, strict=True):
            np.testing.assert_allclose(side, expected_side, atol=1e-9)
        solver.iteration()


@pytest.mark.parametrize("name", HARD_GAMES)
def test_gains_in_hard_games_are_small(name):
    game = HARD_GAMES[name]
    assert gains(game, solve(game)).max() <= 0.05 * np.ptp(game.payoffs[0]) + 1e-9


def test_three_sides_by_hand():
    first_side, second_side, third_side = solve(THREE_SIDES, 2).sides  # side 2 always earns 0
    np.testing.assert_allclose(np.concatenate([first_side, third_side]), [0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(second_side, [2 / 3, 1 / 6, 1 / 6])


@settings(deadline=None, max_examples=10)
@given(matrices(max_size=3))
def test_a_zero_sum_game_approaches_an_equilibrium(matrix):
    game = of_matrix(matrix)
    assert gains(game, solve(game)).max() <= 0.1 * np.ptp(matrix) + 1e-9

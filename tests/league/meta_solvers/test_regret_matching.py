import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms import regret_matching as openspiel_solver

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import (
    CYCLE,
    HARD_GAMES,
    THREE_SIDES,
    gains,
    games,
    matrices,
)


def solve(game, steps=300):
    return bind("league.meta_solvers", "regret_matching", {"steps": steps})(game)


def test_two_steps_by_hand():
    # against uniform the columns of [[1, 0], [0, 0]] cost 1/2 and 0: side 0 has regret for row 0, side 1 for column 1
    game = of_matrix([[1.0, 0.0], [0.0, 0.0]])
    assert [side.tolist() for side in solve(game, 1).sides] == [[0.75, 0.25], [0.25, 0.75]]
    assert [side.tolist() for side in solve(game, 2).sides] == [
        [(0.5 + 1 + 1) / 3, 0.5 / 3],
        [0.5 / 3, (0.5 + 1 + 1) / 3],
    ]


@pytest.mark.parametrize(
    "game",
    [of_matrix([[2, -1], [-1, 1]]), of_matrix([[0, -1, 2], [1, 0, -1], [-2, 1, 0]]), THREE_SIDES],
    ids=("two", "cycle", "three sides"),
)
def test_regret_matching_equals_openspiel(game, monkeypatch):
    # OpenSpiel starts with regrets of 1e-6, we start with 0
    monkeypatch.setattr(openspiel_solver, "INITIAL_REGRET_DENOM", np.inf)
    expected = openspiel_solver.regret_matching(list(game.payoffs), iterations=300, gamma=0.0)
    for side, expected_side in zip(solve(game).sides, expected, strict=True):
        np.testing.assert_allclose(side, expected_side, atol=1e-9)


@pytest.mark.parametrize("name", HARD_GAMES)
def test_gains_in_hard_games_are_below_the_bound(name):
    game = HARD_GAMES[name]
    payoff_range = np.ptp(game.payoffs[0])
    assert gains(game, solve(game)).sum() <= payoff_range * sum(np.sqrt(m / 301) for m in game.shape) + 1e-9


def test_copies_have_equal_weights():
    (weights, _) = solve(HARD_GAMES["copies"]).sides
    np.testing.assert_allclose(weights[::2], weights[1::2])
    assert solve(of_matrix(CYCLE)).sides[0].tolist() == pytest.approx([1 / 3] * 3)


@settings(deadline=None, max_examples=15)
@given(matrices())
def test_the_regret_of_a_zero_sum_game_is_below_the_bound(matrix):
    game = of_matrix(matrix)
    assert gains(game, solve(game, 100)).sum() <= np.ptp(matrix) * sum(np.sqrt(m / 100) for m in game.shape) + 1e-9


@settings(deadline=None, max_examples=20)
@given(game=games(), scale=st.sampled_from([0.25, 1024.0]))
def test_the_scale_of_payoffs_does_not_matter(game, scale):
    scaled_game = MetaGame(payoffs=tuple(scale * table for table in game.payoffs))
    assert all(np.array_equal(a, b) for a, b in zip(solve(game, 20).sides, solve(scaled_game, 20).sides, strict=True))

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.cases import every_case
from tests.league.meta_solvers.meta_games import CYCLE, HARD_GAMES, THREE_SIDES, gains, games, matrices

KINDS = st.sampled_from(["ce", "cce"])
BATTLE_OF_SEXES = MetaGame(payoffs=([[3, 0], [0, 2]], [[2, 0], [0, 3]]))


def solve(game, kind="ce"):
    return bind("league.meta_solvers", "correlated", {"kind": kind})(game)


def deviations(game, kind):
    """Return the gain of each deviation in each cell, [deviations, cells], from the definition."""
    rows = []
    for side, payoffs in enumerate(game.payoffs):
        for advice in range(game.shape[side]) if kind == "ce" else [None]:
            for choice in range(game.shape[side]):
                row = np.zeros(game.shape)
                for cell in np.ndindex(game.shape):
                    if advice in (None, cell[side]):
                        changed_cell = (*cell[:side], choice, *cell[side + 1 :])
                        row[cell] = payoffs[changed_cell] - payoffs[cell]
                rows.append(row.ravel())
    return np.array(rows)


def test_correlated_equilibria_by_hand():
    # binding constraints 2 p11 = 3 p10 and 2 p00 = 3 p10: p00 = p11 = x, p10 = 2x/3, and p01 = 11x/12
    for kind in ("ce", "cce"):
        np.testing.assert_allclose(solve(BATTLE_OF_SEXES, kind).joint * 43, [[12, 11], [8, 12]], atol=1e-9)
    prisoners_dilemma = MetaGame(payoffs=([[3, 0], [5, 1]], [[3, 5], [0, 1]]))
    np.testing.assert_allclose(solve(prisoners_dilemma).joint, [[0, 0], [0, 1]], atol=1e-9)
    np.testing.assert_allclose(solve(of_matrix(CYCLE)).joint, np.full((3, 3), 1 / 9), atol=1e-9)


def test_a_coarse_equilibrium_may_be_more_even():
    game = MetaGame(payoffs=([[2, 0, 1], [1, 1, 0], [0, 1, 2]], [[0, 2, 1], [1, 0, 2], [2, 1, 0]]))
    ce_squares, cce_squares = (np.square(solve(game, kind).joint).sum() for kind in ("ce", "cce"))
    assert cce_squares < ce_squares - 1e-3


def test_the_strategies_of_sides_are_the_marginals():
    strategy = solve(BATTLE_OF_SEXES)
    np.testing.assert_allclose(strategy.sides[0] * 43, [23, 20])
    np.testing.assert_allclose(strategy.sides[1] * 43, [20, 23])


@every_case("name", HARD_GAMES)
@every_case("kind", ["ce", "cce"])
def test_no_deviation_gains_in_hard_games(name, kind):
    game, strategy = HARD_GAMES[name], solve(HARD_GAMES[name], kind)
    assert (deviations(game, kind) @ strategy.joint.ravel()).max() <= 1e-8 * np.ptp(game.payoffs[0])


def test_equal_payoffs_are_uniform():
    assert solve(HARD_GAMES["equal payoffs that are not 0"]).joint == pytest.approx(np.full((2, 3), 1 / 6))


@settings(deadline=None, max_examples=30)
@given(game=games(), kind=KINDS)
def test_no_deviation_gains_and_no_equilibrium_has_a_smaller_sum_of_squares(game, kind):
    joint, rows = solve(game, kind).joint.ravel(), deviations(game, kind)
    assert (rows @ joint).max() <= 1e-8
    # p has the smallest sum of squares if and only if p q >= p p for every equilibrium q
    minimum = linprog(joint, A_ub=rows, b_ub=np.full(len(rows), 1e-9), A_eq=np.ones((1, len(joint))), b_eq=[1.0])
    # linprog breaks a constraint by up to 1e-7, and with payoffs of 0.1 that moves p q by ten times as much
    assert minimum.fun >= joint @ joint - 1e-5


@settings(deadline=None, max_examples=30)
@given(matrix=matrices(max_size=4), kind=KINDS)
def test_the_marginals_of_a_zero_sum_game_are_an_equilibrium(matrix, kind):
    game = of_matrix(matrix)
    assert gains(game, solve(game, kind)).max() <= 1e-7


def test_three_sides():
    joint = solve(THREE_SIDES).joint  # side 0 takes its second member, side 1 its first; side 2 is indifferent
    np.testing.assert_allclose(joint[1, 0], [0.5, 0.5], atol=1e-9)


def test_too_many_combinations_are_refused():
    with pytest.raises(GameError, match=r"441 combinations of members are more than 400; keep fewer members"):
        solve(of_matrix(np.ones((21, 21))))

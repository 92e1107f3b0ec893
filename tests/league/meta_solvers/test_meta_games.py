import inspect

import numpy as np
import pytest

from sparring.config.plugins.registry import Plugin, with_options
from sparring.core.errors import GameError, PluginError
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, distribution, of_matrix
from tests.league.meta_solvers.meta_games import CYCLE

HALF = np.array([0.5, 0.5])
ZEROS = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(payoffs=([[0.0]],)), r"shapes \[\(1, 1\)\]; write at least two sides"),
        (
            dict(payoffs=([[0.0]], [[0.0, 1.0]])),
            r"shapes \[\(1, 1\), \(1, 2\)\]; write at least two sides, each a payoff",
        ),
        (dict(payoffs=([0.0], [0.0])), r"payoffs of 2 sides have the shape \(1,\); write one axis per side"),
        (
            dict(payoffs=(np.zeros((0, 2)),) * 2),
            r"shape \(0, 2\); write one axis per side, each of at least one member",
        ),
        (
            dict(payoffs=([[0.0, 1.0]], [[0.0, np.nan]])),
            r"payoff of side 1 in cell \(0, 1\) is nan; play these members",
        ),
        (dict(payoffs=([[np.inf]], [[0.0]])), r"payoff of side 0 in cell \(0, 0\) is inf"),
        (
            dict(payoffs=([[0, 1], [1, 0]], [[0, -1], [-1, 0]]), symmetric=True),
            r"payoffs\[1\] is not payoffs\[0\]\.T; .* or symmetric=False",
        ),
        (dict(payoffs=(np.zeros((1, 2)),) * 2, symmetric=True), r"symmetric is true"),
        (
            dict(payoffs=(ZEROS, ZEROS), counts=[[1.0]]),
            r"counts have the shape \(1, 1\), and payoffs \(2, 2\); write a value per cell",
        ),
        (dict(payoffs=(ZEROS, ZEROS), counts=ZEROS - 1), "counts must be at least 0"),
        (dict(payoffs=(ZEROS, ZEROS), win_rates=ZEROS + 2), r"win_rates must be in \[0, 1\]"),
        (dict(payoffs=(ZEROS, ZEROS), win_rates=ZEROS * np.nan), r"win_rates must be in \[0, 1\]"),
    ],
)
def test_an_invalid_meta_game_is_refused(fields, message):
    with pytest.raises(GameError, match=message):
        MetaGame(**fields)


def test_a_game_of_an_antisymmetric_matrix_is_symmetric():
    assert of_matrix(CYCLE).symmetric and of_matrix([[0.0]]).symmetric
    assert not of_matrix([[1.0]]).symmetric and not of_matrix([[0.0, 1.0]]).symmetric
    game = of_matrix(CYCLE)
    assert (game.num_sides, game.shape, game.payoffs[1][0, 1]) == (2, (3, 3), 1.0)


def test_a_symmetric_game_need_not_be_zero_sum():
    stag = np.array([[4.0, 0.0], [3.0, 2.0]])
    assert MetaGame(payoffs=(stag, stag.T), symmetric=True).symmetric


def test_tiny_negative_weights_become_0():
    assert distribution(np.array([-1e-18, 3.0, 1.0])).tolist() == [0.0, 0.75, 0.25]


def solver_that_returns(strategy):
    def return_strategy(game):
        return strategy

    return with_options(
        Plugin(
            slot="league.meta_solvers",
            name="mine",
            function=return_strategy,
            module=inspect.getmodule(solver_that_returns),
        )
    )


JOINT = np.array([[0.5, 0.0], [0.0, 0.5]])
BAD_STRATEGIES = {
    "no strategy": (HALF, "must return a MetaStrategy; it returned ndarray"),
    "a side is missing": (
        MetaStrategy(sides=(HALF,)),
        r"a weight per member for each side, \(2, 2\) of them; it returned shapes \(2,\)",
    ),
    "a member is missing": (MetaStrategy(sides=(HALF, [1.0])), r"it returned shapes \(2,\), \(1,\)"),
    "below 0": (MetaStrategy(sides=(HALF, [1.5, -0.5])), r"for side 1 it returned \[1\.5, -0\.5\]"),
    "sum": (MetaStrategy(sides=([0.5, 0.4], HALF)), r"sum to 1; for side 0 it returned \[0\.5, 0\.4\]"),
    "no number": (MetaStrategy(sides=([np.nan, 1.0], HALF)), r"for side 0 it returned \[nan, 1\.0\]"),
    "two answers": (MetaStrategy(sides=(HALF, [0.25, 0.75])), "the same distribution"),
    "shape of joint": (
        MetaStrategy(sides=(HALF, HALF), joint=HALF),
        r"of shape \(2, 2\); it returned the shape \(2,\)",
    ),
    "sum of joint": (MetaStrategy(sides=(HALF, HALF), joint=ZEROS), "for the joint distribution it returned"),
    "marginals": (
        MetaStrategy(sides=([1.0, 0.0],) * 2, joint=JOINT),
        "marginals of its joint distribution; side 0 is not",
    ),
    "shape of rows": (MetaStrategy(sides=(HALF, HALF), rows=(ZEROS,)), r"rows of shapes \(\(2, 2\), \(2, 2\)\)"),
    "row": (
        MetaStrategy(sides=(HALF, HALF), rows=(ZEROS, [[0.0, 0.0], [1.0, 1.0]])),
        r"for member 1 of side 1 it returned \[1\.0, 1\.0\]",
    ),
}


@pytest.mark.parametrize("name", BAD_STRATEGIES)
def test_an_invalid_strategy_is_refused(name):
    strategy, message = BAD_STRATEGIES[name]
    with pytest.raises(PluginError, match=message) as error:
        solver_that_returns(strategy)(of_matrix(ZEROS))
    assert "meta-solver 'mine'" in str(error.value)


def test_a_valid_strategy_is_returned_unchanged():
    strategy = MetaStrategy(sides=(HALF, HALF), joint=JOINT, rows=(ZEROS, np.eye(2)))
    assert solver_that_returns(strategy)(of_matrix(ZEROS)) is strategy

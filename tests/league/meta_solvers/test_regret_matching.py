import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms import regret_matching as theirs

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import (
    CYCLE,
    HARD,
    THREE_SIDES,
    gains,
    games,
    matrices,
)


def solved(game, steps=300):
    return bind("league.meta_solvers", "regret_matching", {"steps": steps})(game)


def test_two_steps_by_hand():
    # against uniform the columns of [[1, 0], [0, 0]] cost 1/2 and 0: side 0 regrets row 0, side 1 column 1
    game = of_matrix([[1.0, 0.0], [0.0, 0.0]])
    assert [side.tolist() for side in solved(game, 1).sides] == [[0.75, 0.25], [0.25, 0.75]]
    assert [side.tolist() for side in solved(game, 2).sides] == [
        [(0.5 + 1 + 1) / 3, 0.5 / 3],
        [0.5 / 3, (0.5 + 1 + 1) / 3],
    ]


@pytest.mark.parametrize(
    "game",
    [of_matrix([[2, -1], [-1, 1]]), of_matrix([[0, -1, 2], [1, 0, -1], [-2, 1, 0]]), THREE_SIDES],
    ids=("two", "cycle", "three sides"),
)
def test_it_is_openspiels(game, monkeypatch):
    monkeypatch.setattr(theirs, "INITIAL_REGRET_DENOM", np.inf)  # they begin with regrets of 1e-6
    known = theirs.regret_matching(list(game.payoffs), iterations=300, gamma=0.0)
    for ours, known_side in zip(solved(game).sides, known, strict=True):
        np.testing.assert_allclose(ours, known_side, atol=1e-9)


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs(name):
    game = HARD[name]
    size = np.ptp(game.payoffs[0])
    assert gains(game, solved(game)).sum() <= size * sum(np.sqrt(m / 301) for m in game.shape) + 1e-9


def test_copies_are_alike():
    (weights, _) = solved(HARD["copies"]).sides
    np.testing.assert_allclose(weights[::2], weights[1::2])
    assert solved(of_matrix(CYCLE)).sides[0].tolist() == pytest.approx([1 / 3] * 3)


@settings(deadline=None, max_examples=15)
@given(matrices())
def test_two_opposed_sides_regret_no_more_than_the_bound(matrix):
    game = of_matrix(matrix)
    assert gains(game, solved(game, 100)).sum() <= np.ptp(matrix) * sum(np.sqrt(m / 100) for m in game.shape) + 1e-9


@settings(deadline=None, max_examples=20)
@given(game=games(), scale=st.sampled_from([0.25, 1024.0]))
def test_units_do_not_matter(game, scale):
    scaled = MetaGame(payoffs=tuple(scale * table for table in game.payoffs))
    assert all(np.array_equal(a, b) for a, b in zip(solved(game, 20).sides, solved(scaled, 20).sides, strict=True))

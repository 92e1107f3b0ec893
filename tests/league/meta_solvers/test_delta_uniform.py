import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import THREE_SIDES, games


def solved(game, delta):
    return [side.tolist() for side in bind("league.meta_solvers", "delta_uniform", {"delta": delta})(game).sides]


@pytest.mark.parametrize(
    ("delta", "of_five"),
    [
        (0.0, [0.2] * 5),
        (0.19, [0.2] * 5),
        (0.2, [0, 0.25, 0.25, 0.25, 0.25]),
        (0.5, [0, 0, 1 / 3, 1 / 3, 1 / 3]),
        (0.6, [0, 0, 0, 0.5, 0.5]),
        (0.99, [0, 0, 0, 0, 1]),
        (1.0, [0, 0, 0, 0, 1]),
    ],
)
def test_by_hand(delta, of_five):
    assert solved(of_matrix(np.zeros((5, 1))), delta) == [of_five, [1]]


def test_rounding_leaves_no_member_in():
    (weights, _) = solved(of_matrix(np.zeros((100, 1))), 0.29)
    assert weights.count(0) == 29


def test_each_side_has_a_window_of_its_own():
    assert solved(THREE_SIDES, 0.5) == [[0, 1], [0, 0.5, 0.5], [0, 1]]


@settings(deadline=None, max_examples=30)
@given(game=games(), delta=st.floats(0, 1))
def test_the_weights_are_equal_and_of_the_newest(game, delta):
    for weights in solved(game, delta):
        assert weights == sorted(weights) and len({*weights} - {0}) == 1


@settings(deadline=None, max_examples=30)
@given(games())
def test_its_ends_are_uniform_and_last(game):
    for delta, name in ((0.0, "uniform"), (1.0, "last")):
        known = bind("league.meta_solvers", name)(game)
        assert solved(game, delta) == [side.tolist() for side in known.sides]

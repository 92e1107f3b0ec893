import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import THREE_SIDES, games


def solve(game, delta):
    return [side.tolist() for side in bind("league.meta_solvers", "delta_uniform", {"delta": delta})(game).sides]


@pytest.mark.parametrize(
    ("delta", "weights_of_five"),
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
def test_the_weights_of_five_members_by_hand(delta, weights_of_five):
    assert solve(of_matrix(np.zeros((5, 1))), delta) == [weights_of_five, [1]]


def test_rounding_excludes_exactly_delta_of_the_members():
    (weights, _) = solve(of_matrix(np.zeros((100, 1))), 0.29)
    assert weights.count(0) == 29


def test_each_side_has_its_own_window():
    assert solve(THREE_SIDES, 0.5) == [[0, 1], [0, 0.5, 0.5], [0, 1]]


@settings(deadline=None, max_examples=30)
@given(game=games(), delta=st.floats(0, 1))
def test_the_newest_members_have_equal_weights_and_others_0(game, delta):
    for weights in solve(game, delta):
        assert weights == sorted(weights) and len({*weights} - {0}) == 1


@settings(deadline=None, max_examples=30)
@given(games())
def test_delta_0_equals_uniform_and_delta_1_equals_last(game):
    for delta, name in ((0.0, "uniform"), (1.0, "last")):
        expected = bind("league.meta_solvers", name)(game)
        assert solve(game, delta) == [side.tolist() for side in expected.sides]

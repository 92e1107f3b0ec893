import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import CYCLE, FOUR_MEMBERS, HARD_GAMES, THREE_SIDES, games


def solve(game, **options):
    return bind("league.meta_solvers", "projected_replicator", {"steps": 200, **options})(game).sides


@pytest.mark.slow
def test_a_known_mixture():
    (weights, _) = solve(of_matrix(FOUR_MEMBERS), gamma=0.01, dt=0.01, steps=50_000, averaged=0.8)
    np.testing.assert_allclose(weights, [0.332, 0.330, 0.327, 0.011], atol=6e-4)


def test_one_step_by_hand():
    # against uniform, both rows of [[1, -1], [0, 0]] earn 0 and the columns earn -1/2 and 1/2
    first_side, second_side = solve(of_matrix([[1.0, -1.0], [0.0, 0.0]]), dt=0.5, steps=1, gamma=0.0)
    assert first_side.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(second_side, [(0.5 + 0.375) / 2, (0.5 + 0.625) / 2])


SCALED = MetaGame(payoffs=tuple(table / np.ptp(THREE_SIDES.payoffs[0]) * 2 for table in THREE_SIDES.payoffs))


@pytest.mark.parametrize(
    "game",
    [of_matrix(CYCLE), of_matrix([[1, -1, 0.5], [0, 0.25, -0.5]]), of_matrix(FOUR_MEMBERS), SCALED],
    ids=("cycle", "uneven", "four", "three sides"),
)
def test_projected_replicator_equals_openspiel_for_payoffs_of_range_2(game):
    expected = projected_replicator_dynamics(list(game.payoffs), prd_iterations=200, prd_dt=0.05, prd_gamma=0.02)
    for side, expected_side in zip(solve(game, gamma=0.02, dt=0.05), expected, strict=True):
        np.testing.assert_allclose(side, expected_side, atol=1e-9)


@pytest.mark.parametrize("name", HARD_GAMES)
def test_the_weights_of_hard_games_are_valid(name):
    assert all(side.min() > 0 and side.sum() == pytest.approx(1) for side in solve(HARD_GAMES[name]))


def test_equal_payoffs_stay_uniform():
    assert [side.tolist() for side in solve(HARD_GAMES["equal payoffs that are not 0"])] == [[1 / 2] * 2, [1 / 3] * 3]


def test_a_dominated_member_falls_to_the_smallest_weight():
    (weights, _) = solve(HARD_GAMES["dominated"], gamma=0.05, dt=0.1, steps=500, averaged=0.1)
    np.testing.assert_allclose(weights, [0.9, 0.05, 0.05])


@settings(deadline=None, max_examples=30)
@given(game=games(), gamma=st.floats(0, 0.3), dt=st.floats(0.001, 1.0))
def test_no_member_falls_below_gamma(game, gamma, dt):
    for side in solve(game, gamma=gamma, dt=dt, steps=20):
        assert side.min() >= gamma - 1e-12 and side.sum() == pytest.approx(1)


@settings(deadline=None, max_examples=20)
@given(game=games(), scale=st.sampled_from([0.25, 1024.0]))
def test_the_scale_of_payoffs_does_not_matter(game, scale):
    scaled_game = MetaGame(payoffs=tuple(scale * table for table in game.payoffs))
    assert all(np.array_equal(a, b) for a, b in zip(solve(game, steps=20), solve(scaled_game, steps=20), strict=True))


def test_a_smallest_weight_that_is_too_large_is_refused():
    with pytest.raises(ConfigError, match=r"gamma=0\.4 is too large for 3 members; write at most 0\.333333"):
        solve(of_matrix(CYCLE), gamma=0.4)

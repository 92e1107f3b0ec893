import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.league.meta_solvers.meta_games import CYCLE, FOUR, HARD, THREE_SIDES, games


def solved(game, **options):
    return bind("league.meta_solvers", "projected_replicator", {"steps": 200, **options})(game).sides


@pytest.mark.slow
def test_a_known_mixture():
    (weights, _) = solved(of_matrix(FOUR), gamma=0.01, dt=0.01, steps=50_000, averaged=0.8)
    np.testing.assert_allclose(weights, [0.332, 0.330, 0.327, 0.011], atol=6e-4)


def test_one_step_by_hand():
    # of [[1, -1], [0, 0]] against uniform both rows earn 0, the columns -1/2 and 1/2
    first, second = solved(of_matrix([[1.0, -1.0], [0.0, 0.0]]), dt=0.5, steps=1, gamma=0.0)
    assert first.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(second, [(0.5 + 0.375) / 2, (0.5 + 0.625) / 2])


SCALED = MetaGame(payoffs=tuple(table / np.ptp(THREE_SIDES.payoffs[0]) * 2 for table in THREE_SIDES.payoffs))


@pytest.mark.parametrize(
    "game",
    [of_matrix(CYCLE), of_matrix([[1, -1, 0.5], [0, 0.25, -0.5]]), of_matrix(FOUR), SCALED],
    ids=("cycle", "uneven", "four", "three sides"),
)
def test_it_is_openspiels_where_the_range_is_2(game):
    known = projected_replicator_dynamics(list(game.payoffs), prd_iterations=200, prd_dt=0.05, prd_gamma=0.02)
    for ours, theirs in zip(solved(game, gamma=0.02, dt=0.05), known, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs(name):
    assert all(side.min() > 0 and side.sum() == pytest.approx(1) for side in solved(HARD[name]))


def test_equal_payoffs_stay_uniform():
    assert [side.tolist() for side in solved(HARD["equal payoffs that are not 0"])] == [[1 / 2] * 2, [1 / 3] * 3]


def test_what_is_dominated_falls_to_the_smallest_weight():
    (weights, _) = solved(HARD["dominated"], gamma=0.05, dt=0.1, steps=500, averaged=0.1)
    np.testing.assert_allclose(weights, [0.9, 0.05, 0.05])


@settings(deadline=None, max_examples=30)
@given(game=games(), gamma=st.floats(0, 0.3), dt=st.floats(0.001, 1.0))
def test_no_member_falls_below_gamma(game, gamma, dt):
    for side in solved(game, gamma=gamma, dt=dt, steps=20):
        assert side.min() >= gamma - 1e-12 and side.sum() == pytest.approx(1)


@settings(deadline=None, max_examples=20)
@given(game=games(), scale=st.sampled_from([0.25, 1024.0]))
def test_units_do_not_matter(game, scale):
    scaled = MetaGame(payoffs=tuple(scale * table for table in game.payoffs))
    assert all(np.array_equal(a, b) for a, b in zip(solved(game, steps=20), solved(scaled, steps=20), strict=True))


def test_a_smallest_weight_that_is_too_large_is_refused():
    with pytest.raises(ConfigError, match=r"gamma=0\.4 is too large for 3 members; write at most 0\.333333"):
        solved(of_matrix(CYCLE), gamma=0.4)

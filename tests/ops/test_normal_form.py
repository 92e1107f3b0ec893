from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import _simplex_projection
from scipy.special import softmax as scipy_softmax

from sparring.ops.normal_form import (
    project_onto_simplex,
    shapley_values,
    shares_above_zero,
    softmax,
    stationary,
)

WEIGHTS = st.lists(st.floats(-5, 5), min_size=1, max_size=6).map(np.array)


@pytest.mark.parametrize(
    ("weights", "minimum", "nearest"),
    [
        ([0.4, 0.7, 0.6], 0.2, [0.2, 0.45, 0.35]),
        ([0.4, 0.6], 0.0, [0.4, 0.6]),
        ([5.0], 0.0, [1.0]),
        ([3.0, 0.0], 0.1, [0.9, 0.1]),
        ([1.0, 1.0, -2.0], 0.0, [0.5, 0.5, 0.0]),
        ([9.0, -9.0], 0.5, [0.5, 0.5]),
    ],
)
def test_the_nearest_point_of_the_simplex_by_hand(weights, minimum, nearest):
    np.testing.assert_allclose(project_onto_simplex(np.array(weights), minimum), nearest)


@given(weights=WEIGHTS, share=st.floats(0, 0.9))
def test_the_projection_equals_openspiels(weights, share):
    minimum = share / len(weights)
    np.testing.assert_allclose(project_onto_simplex(weights, minimum), _simplex_projection(weights, minimum), atol=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6).map(np.array))
def test_softmax_equals_scipy_and_shares_are_probabilities(values):
    assert softmax(values) == pytest.approx(scipy_softmax(values), abs=0.0, rel=1e-12)
    shares = shares_above_zero(values)
    assert (shares.sum() == pytest.approx(1) and (shares[values < 0] == 0).all()) or (values <= 0).all()


def test_shares_above_zero_and_softmax_by_hand():
    assert shares_above_zero(np.array([3.0, -7.0, 1.0])) == pytest.approx([0.75, 0.0, 0.25])
    assert shares_above_zero(np.array([0.0, -2.0])) == pytest.approx([0.5, 0.5])
    assert softmax(np.log([1.0, 2.0, 5.0]) + 1e6) == pytest.approx([0.125, 0.25, 0.625])


def test_a_stationary_distribution_by_hand():
    assert stationary(np.zeros((1, 1))).tolist() == [1.0]
    np.testing.assert_allclose(stationary(np.log([[1.0, 3.0], [1.0, 1.0]])), [0.25, 0.75])
    np.testing.assert_allclose(stationary(np.log([[9, 1, 1], [2, 9, 2], [4, 4, 9]])), [4 / 7, 2 / 7, 1 / 7])


def test_underflowing_rates_give_the_right_distribution():
    # state 0 is left at rate exp(-1000) and state 1 at rate exp(-1002), so state 1 has e^2 times the mass
    distribution = stationary(np.array([[0.0, -1000.0], [-1002.0, 0.0]]))
    np.testing.assert_allclose(distribution[1] / distribution[0], np.exp(2))


@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
def test_the_stationary_distribution_is_invariant(seed, size):
    rates = np.exp(np.random.default_rng(seed).uniform(-8, 2, (size, size)))
    np.fill_diagonal(rates, 0)
    distribution = stationary(np.log(rates, where=rates > 0, out=np.full((size, size), -np.inf)))
    assert distribution.sum() == pytest.approx(1)
    np.testing.assert_allclose(distribution @ rates, distribution * rates.sum(axis=1), rtol=1e-9)


COALITION_VALUES = st.integers(0, 4).flatmap(
    lambda n: st.lists(st.floats(-1e3, 1e3), min_size=2**n, max_size=2**n).map(np.array)
)


def mean_over_orders(value):
    players = len(value).bit_length() - 1
    orders, totals = list(permutations(range(players))), np.zeros(players)
    for order in orders:
        coalition = 0
        for player in order:
            totals[player] += value[coalition | 1 << player] - value[coalition]
            coalition |= 1 << player
    return totals / len(orders)


def test_the_glove_game_by_hand():
    """Player 0 has a left glove, players 1 and 2 have right ones; a pair is worth 1, and player 0 gets 2/3."""
    assert shapley_values(np.array([0, 0, 0, 1, 0, 1, 0, 1.0])) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@given(COALITION_VALUES)
def test_shapley_values_equal_the_mean_over_all_orders(worth):
    assert shapley_values(worth) == pytest.approx(mean_over_orders(worth), abs=1e-9)


def test_null_players_get_zero_and_equal_players_get_equal_shares():
    masks = np.arange(256)
    values = np.array([(mask & 0b111111).bit_count() for mask in masks.tolist()])
    assert shapley_values(1e6 * values.astype(float) ** 2) == pytest.approx([6e6] * 6 + [0, 0], abs=1e-6)


def test_more_than_eight_players_are_refused():
    with pytest.raises(AssertionError):
        shapley_values(np.zeros(512))

"""Distributions of numbers: by hand, by what makes one the nearest, scipy's and OpenSpiel's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import _simplex_projection
from scipy.special import softmax as by_scipy

from sparring.ops.normal_form import onto_simplex, shares_above_zero, softmax

WEIGHTS = st.lists(st.floats(-5, 5), min_size=1, max_size=6).map(np.array)


@pytest.mark.parametrize(
    ("weights", "least", "found"),
    [
        ([0.4, 0.7, 0.6], 0.2, [0.2, 0.45, 0.35]),
        ([0.4, 0.6], 0.0, [0.4, 0.6]),
        ([5.0], 0.0, [1.0]),
        ([3.0, 0.0], 0.1, [0.9, 0.1]),
        ([1.0, 1.0, -2.0], 0.0, [0.5, 0.5, 0.0]),
        ([9.0, -9.0], 0.5, [0.5, 0.5]),
    ],
)
def test_by_hand(weights, least, found):
    np.testing.assert_allclose(onto_simplex(np.array(weights), least), found)


@given(weights=WEIGHTS, share=st.floats(0, 1))
def test_it_is_a_distribution_of_at_least_so_much_and_the_nearest(weights, share):
    least = share / len(weights)
    found = onto_simplex(weights, least)
    assert found.min() >= least - 1e-12 and found.sum() == pytest.approx(1)
    above, shift = found > least + 1e-9, weights - found
    if above.any():  # the same is taken from all that are above, and no less from the others
        assert np.ptp(shift[above]) < 1e-9 and shift[~above].max(initial=-99) <= shift[above].max() + 1e-9


@given(weights=WEIGHTS, share=st.floats(0, 0.9))
def test_it_is_openspiels(weights, share):
    least = share / len(weights)
    np.testing.assert_allclose(onto_simplex(weights, least), _simplex_projection(weights, least), atol=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6).map(np.array))
def test_the_softmax_is_scipys_and_shares_are_probabilities(values):
    assert softmax(values) == pytest.approx(by_scipy(values), abs=0.0, rel=1e-12)
    shares = shares_above_zero(values)
    assert (shares.sum() == pytest.approx(1) and (shares[values < 0] == 0).all()) or (values <= 0).all()


def test_shares_by_hand():
    assert shares_above_zero(np.array([3.0, -7.0, 1.0])) == pytest.approx([0.75, 0.0, 0.25])
    assert shares_above_zero(np.array([0.0, -2.0])) == pytest.approx([0.5, 0.5])
    assert softmax(np.log([1.0, 2.0, 5.0]) + 1e6) == pytest.approx([0.125, 0.25, 0.625])

"""The projection onto distributions: by hand, by what makes it the nearest, and OpenSpiel's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import _simplex_projection

from sparring.ops.simplex import onto_simplex

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

"""Stationary distributions: by hand, by their equation, and rates far too small for numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops.normal_form import stationary


def test_by_hand():
    assert stationary(np.zeros((1, 1))).tolist() == [1.0]
    np.testing.assert_allclose(stationary(np.log([[1.0, 3.0], [1.0, 1.0]])), [0.25, 0.75])
    np.testing.assert_allclose(stationary(np.log([[9, 1, 1], [2, 9, 2], [4, 4, 9]])), [4 / 7, 2 / 7, 1 / 7])


def test_rates_smaller_than_any_number():
    # away from 0 at exp(-1000), away from 1 at exp(-1002): 1 has e^2 times the mass
    found = stationary(np.array([[0.0, -1000.0], [-1002.0, 0.0]]))
    np.testing.assert_allclose(found[1] / found[0], np.exp(2))


@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
def test_it_does_not_change_in_time(seed, size):
    rates = np.exp(np.random.default_rng(seed).uniform(-8, 2, (size, size)))
    np.fill_diagonal(rates, 0)
    found = stationary(np.log(rates, where=rates > 0, out=np.full((size, size), -np.inf)))
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found @ rates, found * rates.sum(axis=1), rtol=1e-9)

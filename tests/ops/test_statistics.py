"""The jackknife against what it is known to be for a mean."""

import math

import numpy as np
import pytest

from sparring.ops.statistics import jackknife_interval, mean_interval


@pytest.mark.parametrize("count", [2, 3, 40])
def test_the_jackknife_of_a_mean_is_students_interval(count):
    values = np.random.Generator(np.random.Philox(count)).normal(size=count) + 1e3
    left_out = (values.sum() - values) / (count - 1)
    for level in (0.5, 0.95):
        found, known = jackknife_interval(float(values.mean()), left_out, level=level), mean_interval(values, level=level)
        assert (found.mean, found.low, found.high) == pytest.approx((known.mean, known.low, known.high))
        assert (found.count, found.level) == (count, level)


def test_one_observation_leaves_everything_open():
    interval = jackknife_interval(2.0, np.array([0.0]))
    assert (interval.mean, interval.low, interval.high) == (2.0, -math.inf, math.inf)


def test_an_error_that_is_known_besides_is_added_in_squares():
    values = np.array([1.0, 2.0, 4.0])
    plain, wide = (jackknife_interval(2.0, values, more_error=error) for error in (0.0, 3.0))
    alone = jackknife_interval(2.0, np.zeros(3), more_error=3.0)
    assert (wide.high - 2.0) ** 2 == pytest.approx((plain.high - 2.0) ** 2 + (alone.high - 2.0) ** 2)
    assert (wide.mean, wide.high - 2.0) == (2.0, pytest.approx(2.0 - wide.low))

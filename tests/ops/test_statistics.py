import math

import numpy as np
import pytest

from sparring.ops.statistics import (
    clustered_mean_interval,
    clustered_share_interval,
    jackknife_interval,
    mean_interval,
)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_the_jackknife_of_a_mean_is_students_interval(count):
    values = np.random.Generator(np.random.Philox(count)).normal(size=count) + 1e3
    leave_one_out_means = (values.sum() - values) / (count - 1)
    for level in (0.5, 0.95):
        interval, expected = (
            jackknife_interval(float(values.mean()), leave_one_out_means, level=level),
            mean_interval(values, level=level),
        )
        assert (interval.mean, interval.low, interval.high) == pytest.approx(
            (expected.mean, expected.low, expected.high)
        )
        assert (interval.count, interval.level) == (count, level)


def test_one_observation_gives_an_infinite_interval():
    interval = jackknife_interval(2.0, np.array([0.0]))
    assert (interval.mean, interval.low, interval.high) == (2.0, -math.inf, math.inf)


def test_an_additional_known_error_is_added_in_quadrature():
    values = np.array([1.0, 2.0, 4.0])
    without_error, with_error = (jackknife_interval(2.0, values, more_error=error) for error in (0.0, 3.0))
    only_error = jackknife_interval(2.0, np.zeros(3), more_error=3.0)
    assert (with_error.high - 2.0) ** 2 == pytest.approx((without_error.high - 2.0) ** 2 + (only_error.high - 2.0) ** 2)
    assert (with_error.mean, with_error.high - 2.0) == (2.0, pytest.approx(2.0 - with_error.low))


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_clusters_of_one_are_students_interval(count):
    values = np.random.Generator(np.random.Philox(count)).normal(size=count)
    interval, expected = clustered_mean_interval(values, np.ones(count)), mean_interval(values)
    assert (interval.mean, interval.low, interval.high, interval.count) == pytest.approx(
        (expected.mean, expected.low, expected.high, expected.count), nan_ok=True
    )


def test_a_clustered_mean_by_hand():
    # mean of 6 observations 10/6; residuals 1 - 5/3, 3 - 10/3, 6 - 5; standard error sqrt(14/9 * 3/2) / 6
    interval = clustered_mean_interval(np.array([1.0, 3.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert interval.mean == pytest.approx(10 / 6)
    assert interval.high - interval.mean == pytest.approx(4.302652729911275 * math.sqrt(14 / 9 * 1.5) / 6)
    assert interval.count == 6


def test_repeated_observations_do_not_narrow_the_interval():
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    for interval in (clustered_mean_interval, clustered_share_interval):
        single_interval, repeated_interval = interval(values, np.ones(8)), interval(100 * values, np.full(8, 100.0))
        assert (repeated_interval.low, repeated_interval.high) == pytest.approx(
            (single_interval.low, single_interval.high)
        )
        assert repeated_interval.count == 800


def test_clustered_intervals_have_their_nominal_coverage():
    generator = np.random.Generator(np.random.Philox(7))
    num_covered = np.zeros(2)
    for _ in range(400):
        sizes = generator.integers(1, 9, 40).astype(float)
        successes = generator.binomial(sizes.astype(int), generator.beta(4.0, 1.0, 40)).astype(
            float
        )  # mean 0.8, equal within a cluster
        for index, interval in enumerate((clustered_mean_interval, clustered_share_interval)):
            ends = interval(successes, sizes)
            num_covered[index] += ends.low <= 0.8 <= ends.high
    assert (num_covered >= 0.92 * 400).all() and (num_covered <= 0.985 * 400).all()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_shares_of_0_and_1_have_an_interval(share):
    sizes = np.array([3.0, 4.0, 5.0])
    interval = clustered_share_interval(share * sizes, sizes)
    width = 1 - 1 / (
        1 + 4.302652729911275**2 / 3
    )  # Wilson's interval for 0 or 3 of 3, with t of two degrees of freedom in place of z
    assert (interval.low, interval.high) == (
        pytest.approx((1 - width) * share),
        pytest.approx(width if share == 0 else 1.0),
    )


@pytest.mark.parametrize("count", [0, 1])
def test_a_share_of_fewer_than_two_clusters_has_no_interval(count):
    interval = clustered_share_interval(np.ones(count), np.full(count, 2.0))
    assert (interval.low, interval.high, interval.count) == (0.0, 1.0, 2 * count)

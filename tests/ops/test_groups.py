import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops import groups, statistics

VALUES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 3)), min_size=1, max_size=20)


@given(VALUES)
def test_group_statistics_equal_plain_loops(pairs):
    values, keys = np.array([v for v, _ in pairs]), np.array([k for _, k in pairs])
    ids, count = groups.group_ids(keys)
    mean, deviation, mean_of_others = (
        groups.group_mean(values, ids, count),
        groups.group_std(values, ids, count),
        groups.leave_one_out_mean(values, ids, count),
    )
    for row, key in enumerate(keys):
        members = values[keys == key]
        assert mean[ids[row]] == pytest.approx(members.mean(), abs=1e-6)
        assert deviation[ids[row]] == pytest.approx(
            members.std(ddof=1) if len(members) > 1 else 0.0, rel=1e-6, abs=1e-4
        )
        other_values = np.delete(values, row)[np.delete(keys, row) == key]
        assert mean_of_others[row] == pytest.approx(other_values.mean() if len(other_values) else values[row], abs=1e-5)


def test_groups_of_very_different_size_keep_precision():
    ids = np.repeat([0, 1], 3001)
    values = np.where(ids == 0, 1e6 + 0.1, -1e6 - 0.3)
    assert np.abs(groups.centre(values, ids, 2)).max() < 1e-15
    assert groups.group_std(values, ids, 2).tolist() == pytest.approx([0.0, 0.0], abs=1e-15)
    values[0] += 3001.0
    assert groups.centre(values, ids, 2)[:2] == pytest.approx([3000.0, -1.0], abs=1e-9)


def test_groups_without_rows_have_mean_and_deviation_zero():
    values, ids = np.array([4.0, 6.0]), np.array([2, 2])
    assert groups.group_mean(values, ids, 4).tolist() == [0.0, 0.0, 5.0, 0.0]
    assert groups.group_std(values, ids, 4, ddof=0).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert groups.group_counts(ids, 4).tolist() == [0, 0, 2, 0]
    no_values = np.zeros(0)
    assert groups.group_mean(no_values, no_values.astype(np.int64), 2).tolist() == [0.0, 0.0]
    assert groups.group_ids(no_values.astype(np.int64))[1] == 0


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-(10**12), 10**12)), min_size=1, max_size=20))
def test_group_ids_are_equal_if_and_only_if_all_columns_are(rows):
    first_column, second_column = np.array([a for a, _ in rows]), np.array([b for _, b in rows])
    ids, count = groups.group_ids(first_column, second_column)
    assert count == len(set(rows)) == len(set(ids.tolist()))
    assert all((ids[i] == ids[j]) == (rows[i] == rows[j]) for i in range(len(rows)) for j in range(len(rows)))


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=6), max_size=6), st.floats(0, 1))
def test_returns_equal_a_loop(rewards, gamma):
    trajectory = np.repeat(np.arange(len(rewards)), [len(r) for r in rewards]).astype(np.int64)
    expected = [sum(gamma**k * r for k, r in enumerate(turns[t:])) for turns in rewards for t in range(len(turns))]
    flat_rewards = np.array([r for turns in rewards for r in turns])
    assert groups.discounted_returns(flat_rewards, trajectory, gamma=gamma) == pytest.approx(
        np.array(expected), abs=1e-9
    )
    assert groups.trajectory_sums(flat_rewards, trajectory) == pytest.approx([sum(t) for t in rewards], abs=1e-9)


TURNS = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=5)  # rewards and values


@given(st.lists(TURNS, max_size=5), st.floats(0, 1), st.floats(0, 1))
def test_generalised_advantages_equal_their_definition(pairs, gamma, lam):
    """Compare with the explicit sum A[t] = sum over k of (gamma lam)^k delta[t + k]."""
    expected = []
    for turns in pairs:
        values = [value for _, value in turns] + [0.0]
        delta = [reward + gamma * values[t + 1] - values[t] for t, (reward, _) in enumerate(turns)]
        expected += [sum((gamma * lam) ** k * delta[t + k] for k in range(len(turns) - t)) for t in range(len(turns))]
    trajectory = np.repeat(np.arange(len(pairs)), [len(turns) for turns in pairs]).astype(np.int64)
    reward, value = (np.array([pair[i] for turns in pairs for pair in turns]) for i in (0, 1))
    result = groups.generalised_advantages(reward, value, trajectory, gamma=gamma, lam=lam)
    assert result == pytest.approx(np.array(expected), abs=1e-9)


def test_rows_in_sequence_with_one_number_are_a_trajectory():
    trajectory = np.array([3, 3, 5, 9, 9, 9])
    assert groups.trajectory_starts(trajectory).tolist() == [0, 2, 3]
    assert groups.trajectory_sums(np.arange(6.0), trajectory).tolist() == [1.0, 2.0, 12.0]
    assert groups.trajectory_starts(trajectory[:0]).shape == (0,)


def test_wilson_against_published_values():
    # Newcombe (1998), table I: 81 of 263 and 0 of 20
    interval = statistics.wilson_interval(81, 263)
    assert (interval.low, interval.high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    zero_of_twenty = statistics.wilson_interval(0, 20)
    assert (zero_of_twenty.low, zero_of_twenty.high) == (0.0, pytest.approx(0.1611, abs=1e-4))
    assert statistics.wilson_interval(20, 20).high == 1.0
    assert (statistics.wilson_interval(0, 0).low, statistics.wilson_interval(0, 0).high) == (0.0, 1.0)


def test_mean_interval_equals_scipy():
    data = np.array([1.0, 2.0, 4.0, 9.0])
    low, high = scipy.stats.t.interval(0.9, 3, loc=data.mean(), scale=scipy.stats.sem(data))
    interval = statistics.mean_interval(data, level=0.9)
    assert (interval.mean, interval.low, interval.high) == (4.0, pytest.approx(low), pytest.approx(high))
    assert statistics.mean_interval([1.0]).low == -np.inf
    assert np.isnan(statistics.mean_interval([]).mean)


@given(st.floats(0, 1), st.floats(0.001, 0.499), st.floats(0.5, 0.999))
def test_wilson_count_is_that_of_the_half_width(share, half_width, level):
    low, high = statistics.wilson_ends(share, statistics.wilson_count(share, half_width, level), level)
    assert (high - low) / 2 == pytest.approx(half_width, rel=1e-6)


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.5, 0.99))
def test_wilson_is_symmetric_contains_the_share_and_widens_with_the_level(successes, failures, level):
    count = successes + failures
    interval, mirror = (
        statistics.wilson_interval(successes, count, level=level),
        statistics.wilson_interval(failures, count, level=level),
    )
    assert (interval.low, interval.high) == (pytest.approx(1 - mirror.high), pytest.approx(1 - mirror.low))
    if count:
        assert 0 <= interval.low <= interval.mean <= interval.high <= 1
        wider = statistics.wilson_interval(successes, count, level=0.999)
        assert wider.low <= interval.low and interval.high <= wider.high


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 99))
def test_a_recurrence_with_one_coefficient_per_row(lengths, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    inputs, coefficient = generator.normal(size=(2, len(trajectory)))
    expected = inputs.copy()
    for row in reversed(range(len(inputs) - 1)):
        if trajectory[row] == trajectory[row + 1]:
            expected[row] += coefficient[row] * expected[row + 1]
    assert groups.backward_recurrence(inputs, coefficient, trajectory) == pytest.approx(expected)
    assert np.array_equal(
        groups.backward_recurrence(inputs, np.full(len(inputs), 0.5), trajectory),
        groups.backward_recurrence(inputs, 0.5, trajectory),
    )

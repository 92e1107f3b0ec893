import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops import blocks
from sparring.ops.groups import group_ids, group_std_or_zero, is_varied, standardise

MEMBERS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-40, 40).map(lambda number: number / 8)), min_size=1, max_size=12
)


def columns(members):
    ids, count = group_ids(np.array([group for group, _ in members]))
    values = np.array([value for _, value in members])
    return values, ids, count, [values[ids == group].tolist() for group in range(count)]


@given(MEMBERS)
def test_blocks_hold_every_row_once_and_one_group_per_row(members):
    _, ids, count, _ = columns(members)
    block_list = list(blocks.rows_by_size(ids, count))
    assert sorted(row for block in block_list for row in block.reshape(-1).tolist()) == list(range(len(ids)))
    for block in block_list:
        assert (ids[block] == ids[block[:, :1]]).all()
    assert len({block.shape[1] for block in block_list}) == len(block_list)


@given(MEMBERS)
def test_order_statistics_of_groups(rows):
    values, ids, count, groups = columns(rows)
    assert blocks.lower_median(values, ids, count).tolist() == [statistics.median_low(members) for members in groups]
    largest, second_largest = blocks.best_two(values, ids, count)
    assert largest.tolist() == [max(members) for members in groups]
    assert second_largest.tolist() == [sorted(members)[-2] if len(members) > 1 else members[0] for members in groups]
    expected = [
        groups[group].count(value) / len(groups[group])
        for group, value in zip(ids.tolist(), values.tolist(), strict=True)
    ]
    assert blocks.shares_of_value(values, ids, count) == pytest.approx(expected)


def test_shares_and_steps_ignore_rounding_errors():
    assert blocks.shares_of_value(np.array([0.1 + 0.2, 0.3, 1.0]), np.zeros(3, dtype=np.int64), 1) == pytest.approx(
        [2 / 3, 2 / 3, 1 / 3]
    )
    assert blocks.differs_from_previous(np.array([[0.3, 0.1 + 0.2, 1.0], [1e-9, 2e-9, 2e-9]])).tolist() == [
        [False, True],
        [True, False],
    ]


def test_tied_means_by_hand():
    is_different = np.array([[True, False, True], [False, False, False]])
    assert blocks.average_over_ties(is_different, np.array([1.0, 2.0, 4.0, 9.0])).tolist() == [
        [1, 3, 3, 9],
        [4, 4, 4, 4],
    ]
    assert blocks.average_over_ties(is_different[:1], np.array([[8.0, 2.0, 0.0, 1.0]])).tolist() == [[8, 1, 1, 1]]


@pytest.mark.parametrize("width", [1, 5, 62, 63, 64, 65, 130])
def test_patterns_of_any_width_are_distinguished(width):
    flags = np.zeros((4, width), dtype=bool)
    flags[1, -1] = flags[3, -1] = True
    flags[2, 0] = True
    first_rows, pattern = blocks.distinct_rows(flags)
    assert len(first_rows) == (2 if width == 1 else 3)
    assert (flags[first_rows][pattern] == flags).all()


@given(MEMBERS, st.sampled_from([0, 1]))
def test_deviations_and_standardise_follow_their_definition(members, ddof):
    values, ids, count, groups = columns(members)
    expected = [float(np.std(group, ddof=ddof)) if len(group) > ddof else 0.0 for group in groups]
    assert group_std_or_zero(values, ids, count, ddof=ddof) == pytest.approx(expected, abs=1e-12)
    assert is_varied(values, ids, count).tolist() == [len(set(group)) > 1 for group in groups]
    relative = [
        (v - np.mean(groups[g])) / (expected[g] + 0.5) for g, v in zip(ids.tolist(), values.tolist(), strict=True)
    ]
    assert standardise(values, ids, count, ddof=ddof, epsilon=0.5) == pytest.approx(relative, abs=1e-12)


def test_values_equal_up_to_rounding_standardise_to_zero():
    values, ids = np.array([1e6 + 0.1 + 0.2, 1e6 + 0.3, 5.0]), np.array([0, 0, 1])
    assert standardise(values, ids, 2, epsilon=0.0).tolist() == [0.0, 0.0, 0.0]
    assert standardise(np.zeros(0), np.zeros(0, dtype=np.int64), 0).shape == (0,)

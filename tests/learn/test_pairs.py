"""Pairs of a better and a worse member of one group."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparring.learn.reward_model import every_pair, one_to_one

MEMBERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=14)


def arrays(members):
    return np.array([m[0] for m in members], dtype=np.float64), np.array([m[1] for m in members], dtype=np.int64)


def pair_names(pairs):
    return sorted(zip(*(side.tolist() for side in pairs), strict=True))


def test_pairs_by_hand():
    values, ids = np.array([3.0, 0.0, 1.0, 2.0, 1.0, 5.0]), np.array([7, 7, 7, 7, 2, 2])
    assert pair_names(one_to_one(values, ids)) == [(0, 1), (3, 2), (5, 4)]
    assert pair_names(every_pair(values, ids)) == [(0, 1), (0, 2), (0, 3), (2, 1), (3, 1), (3, 2), (5, 4)]


@given(MEMBERS)
def test_all_pairs_equal_a_double_loop(members):
    values, ids = arrays(members)
    size = range(len(values))
    assert pair_names(every_pair(values, ids)) == sorted(
        (a, b) for a in size for b in size if ids[a] == ids[b] and values[a] > values[b]
    )


@given(MEMBERS)
def test_one_to_one_pairs_each_member_once_best_with_worst(members):
    values, ids = arrays(members)
    better_rows, worse_rows = one_to_one(values, ids)
    assert (ids[better_rows] == ids[worse_rows]).all()
    assert (values[better_rows] > values[worse_rows]).all()
    assert len(set(better_rows) | set(worse_rows)) == 2 * len(better_rows)
    for group in set(ids.tolist()):
        in_order = sorted(values[ids == group])
        expected = sorted(
            (high, low) for low, high in zip(in_order[: len(in_order) // 2], in_order[::-1], strict=False) if high > low
        )
        assert (
            sorted((values[a], values[b]) for a, b in zip(better_rows, worse_rows, strict=True) if ids[a] == group)
            == expected
        )


def test_values_equal_up_to_rounding_are_a_tie():
    values = np.array([0.1 + 0.2, 0.3, 1e6 / 3, 1e6 / 3 + 1e-7])
    for pairs in (one_to_one, every_pair):
        assert pair_names(pairs(values, np.array([0, 0, 1, 1]))) == []

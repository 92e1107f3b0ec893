import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.equal_groups import equal_groups
from sparring.methods.selection.variance_filter import variance_filter


def test_keep_keeps_everything():
    assert equal_groups(tables.table([[1.0], [1.0]], groups=[0, 0]), Stream.from_seed(0)).all()


def test_drop_takes_out_groups_without_differences():
    turns = tables.table([[1.0], [0.5, 0.5], [1.0], [2.0], [9.0]], groups=[0, 0, 1, 1, 2])
    assert equal_groups(turns, Stream.from_seed(0), policy="drop").tolist() == [False, False, False, True, True, True]


def test_roles_are_judged_apart():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0]], seats=[0, 0, 1, 1], groups=[0] * 4)
    assert equal_groups(turns, Stream.from_seed(0), policy="drop").tolist() == [False, False, True, True]


def test_rounding_is_no_difference_and_an_empty_table_is_fine():
    turns = tables.table([[0.1, 0.2], [0.3]], groups=[0, 0])
    assert not equal_groups(turns, Stream.from_seed(0), policy="drop").any()
    assert equal_groups(tables.table([]), Stream.from_seed(0), policy="drop").shape == (0,)


def test_a_group_of_nothing_but_zeros_is_equal_whatever_others_hold():
    turns = tables.table([[0.0]] * 5 + [[0.0], [1.0], [0.0]] + [[0.0]], groups=[0] * 5 + [1] * 3 + [0])  # the batch's mean is 1/9
    assert dropped(turns).tolist() == [False] * 5 + [True] * 3 + [False]


ROUND = st.lists(
    st.tuples(st.lists(st.integers(-2, 2), min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=10
)


def drawn(rows, factor=1.0):
    """Return the table of rows (rewards, group, seat), rewards times a factor."""
    rewards = [[factor * value for value in own] for own, _, _ in rows]
    return tables.table(rewards, seats=[seat for _, _, seat in rows], groups=[group for _, group, _ in rows])


def dropped(turns):
    return equal_groups(turns, Stream.from_seed(0), policy="drop")


@given(ROUND)
def test_a_group_goes_exactly_if_two_or_more_returns_are_all_one(rows):
    expected = []
    for rewards, group, seat in rows:
        returns = [sum(own) for own, other, chair in rows if (other, chair) == (group, seat)]
        expected += [len(returns) == 1 or len(set(returns)) > 1] * len(rewards)
    assert dropped(drawn(rows)).tolist() == expected


@given(ROUND, st.sampled_from([1e-3, 0.1, 3.0, 1e6]))
def test_the_scale_of_rewards_changes_nothing_and_dropping_twice_is_dropping_once(rows, factor):
    mask = dropped(drawn(rows))
    assert dropped(drawn(rows, factor)).tolist() == mask.tolist()
    row_of = np.cumsum([0, *(len(own) for own, _, _ in rows)])[:-1]
    left = [row for row, first in zip(rows, row_of, strict=True) if mask[first]]
    assert not left or dropped(drawn(left)).all()


@given(ROUND)
def test_where_every_group_differs_or_is_alone_it_drops_nothing(rows):
    """And the variance filter that keeps every group is the same rule there."""
    apart = [([float(number)], group, seat) for number, (_, group, seat) in enumerate(rows)]
    assert dropped(drawn(apart)).all()
    assert variance_filter(drawn(apart), Stream.from_seed(0), keep=1.0).all()


def test_large_returns_do_not_hide_small_groups_from_another_scale_and_a_wrong_policy_is_refused():
    turns = tables.table([[1e6], [1e6 + 1.0], [1e6], [1e6]], groups=[0, 0, 1, 1])
    assert dropped(turns).tolist() == [True, True, False, False]
    far = tables.table([[1e10], [-1e10], [0.25], [0.75]], groups=[0, 0, 1, 1])
    assert dropped(far).all()
    with pytest.raises(CreditError, match="not finite"):
        dropped(tables.table([[float("nan")], [1.0]], groups=[0, 0]))
    with pytest.raises(ConfigError, match="policy"):
        bind("selection", "equal_groups", {"policy": "skip"})

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.core.errors import CreditError
from sparring.core.rng import Stream
from sparring.methods.credit.loop import loop
from sparring.methods.selection.small_advantage import small_advantage

STREAM = Stream.from_seed(0)


def test_by_hand():
    turns = tables.table([[0.0], [1.0, 1.0], [1.0], [4.0], [4.0]], groups=[0, 0, 0, 1, 1])  # A = -1.5, 1.5, 0, 0, 0
    assert small_advantage(turns, STREAM).tolist() == [True, True, True, False, False, False]
    assert small_advantage(turns, STREAM, threshold=1.6).tolist() == [False] * 6
    assert small_advantage(turns, STREAM, threshold=0.0).all()
    assert small_advantage(turns, STREAM, multiple=4).sum() == 5  # the two, three rows, and two more
    assert small_advantage(turns, STREAM, multiple=9).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-3, 3)), max_size=12), st.sampled_from([0.01, 1.0, 2.0]))
def test_what_goes_is_what_loop_sets_to_zero(trajectories, threshold):
    groups, seats, rewards = ([t[i] for t in trajectories] for i in range(3))
    turns = tables.table([[float(r), 0.0] for r in rewards], groups=groups, seats=seats)
    expected = loop(turns, min_advantage=threshold).advantages != 0.0
    assert small_advantage(turns, STREAM, threshold=threshold).tolist() == expected.tolist()


def test_the_largest_of_the_rest_round_the_number_up_whatever_the_order():
    rewards = [[0.0], [9.0], [4.4], [4.6], [4.5]]
    turns = tables.table(rewards, groups=[0] * 5)  # distances from the others' mean: 5.6, 5.6, 0.1, 0.1, 0
    assert small_advantage(turns, STREAM, threshold=1.0, multiple=4).tolist() == [True, True, True, True, False]
    picked = {tuple(small_advantage(turns, Stream.from_seed(s), threshold=1.0, multiple=3)[2:4].tolist()) for s in range(20)}
    assert picked == {(True, False), (False, True)}


def test_hard_tables():
    assert small_advantage(tables.table([]), STREAM, multiple=4).shape == (0,)
    assert not small_advantage(tables.table([[5.0]]), STREAM).any()
    assert not small_advantage(tables.table([[0.1, 0.2], [0.3]], groups=[0, 0]), STREAM, threshold=1e-30).any()
    assert small_advantage(tables.table([[1e6], [1e6 + 0.02]], groups=[0, 0]), STREAM).all()
    with pytest.raises(CreditError, match=r"small_advantage.*row 0"):
        small_advantage(tables.table([[np.nan]]), STREAM)

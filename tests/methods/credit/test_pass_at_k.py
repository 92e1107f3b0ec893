import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.pass_at_k import pass_at_k
from sparring.methods.credit.rloo import rloo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_by_hand():
    assert pass_at_k(group([1, 5, 3, 2])).advantages.tolist() == [0, 2, 0, 0]


def test_by_hand_with_division():
    # sample deviation of 1, 0, 0, 0 is 1/2
    assert pass_at_k(group([1, 0, 0, 0]), divide_by_std=True).advantages == pytest.approx([2, 0, 0, 0], abs=1e-5)
    assert pass_at_k(group([1, 0, 0, 0]), divide_by_std=True, epsilon=0.5).advantages.tolist() == [1, 0, 0, 0]


def test_roles_are_kept_apart_and_all_turns_of_the_best_are_credited():
    assert pass_at_k(table(**BY_HAND)).advantages == pytest.approx([4, 4, 0, 0, 4, 4, 4])


@given(EIGHTHS, EIGHTHS)
def test_of_two_the_better_gets_what_rloo_gives_it(a, b):
    assert pass_at_k(group([a, b])).advantages == pytest.approx(np.maximum(rloo(group([a, b])).advantages, 0), abs=1e-12)


@given(st.lists(EIGHTHS, min_size=2, max_size=8))
def test_each_gets_what_the_maximum_would_lose_without_it(returns):
    lost = [max(returns) - max(returns[:index] + returns[index + 1 :]) for index in range(len(returns))]
    assert pass_at_k(group(returns)).advantages == pytest.approx(lost, abs=1e-12)


@given(st.lists(EIGHTHS, min_size=2, max_size=8), st.integers(1, 5))
def test_two_equal_bests_get_nothing(returns, more):
    twice = [*returns, max(returns)] * more
    assert not pass_at_k(group(twice)).advantages.any()


def test_hard_inputs():
    for divide in (True, False):
        assert pass_at_k(group([7.0]), divide_by_std=divide).advantages.tolist() == [0.0]
        assert pass_at_k(table([]), divide_by_std=divide).advantages.shape == (0,)
        assert not pass_at_k(group([0.1] * 7), divide_by_std=divide, epsilon=0.0).advantages.any()
        assert not pass_at_k(group([0.1 + 0.2, 0.3]), divide_by_std=divide, epsilon=0.0).advantages.any()
    assert pass_at_k(group([1e6 + 1, 1e6 + 3])).advantages.tolist() == [0, 2]


def test_groups_of_different_sizes():
    turns = table([[1.0], [9.0], [4.0], [2.0], [8.0], [3.0]], groups=[0, 1, 0, 0, 1, 2])
    assert pass_at_k(turns).advantages.tolist() == [0, 1, 2, 0, 0, 0]

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.rloo import rloo


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_golden():
    assert rloo(group([1, 0, 0, 0])).advantages == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_by_hand():
    assert rloo(table(**BY_HAND)).advantages == pytest.approx([4.0, 4.0, -4.0, -4.0, 4.0, 4.0, 4.0])


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_it_is_centred_grpo_times_n_over_n_minus_one(returns):
    n = len(returns)
    centred = grpo(group(returns), divide_by_std=False).advantages
    assert rloo(group(returns)).advantages == pytest.approx(n / (n - 1) * centred, abs=1e-9)


def test_naive_definition_near_a_million():
    returns = np.array([1e6 + 1, 1e6 + 2, 1e6 + 4])
    naive = [returns[i] - np.delete(returns, i).mean() for i in range(3)]
    assert rloo(group(returns)).advantages == pytest.approx(naive, abs=1e-6)


def test_group_of_one_gives_zero():
    assert rloo(group([7.0])).advantages.tolist() == [0.0]


def test_roles_are_kept_apart_whatever_the_seat():
    turns = table([[1.0], [10.0], [3.0], [30.0]], seats=[0, 1, 1, 0], roles=[0, 1, 0, 1], groups=[0] * 4)
    assert rloo(turns).advantages == pytest.approx([-2.0, -20.0, 2.0, 20.0])


def test_groups_are_kept_apart_and_lengths_do_not_matter():
    turns = table([[1.0, 1.0], [0.0], [5.0], [4.0, 0.0, 5.0]], groups=[0, 0, 1, 1])
    assert rloo(turns).advantages == pytest.approx([2.0, 2.0, -2.0, -4.0, 4.0, 4.0, 4.0])


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=6), st.floats(-1e6, 1e6))
def test_a_shift_of_all_returns_changes_nothing(returns, shift):
    shifted = rloo(group([value + shift for value in returns])).advantages
    assert shifted == pytest.approx(rloo(group(returns)).advantages, abs=1e-6)


def test_all_equal_gives_nothing():
    assert rloo(group([0.1] * 7)).advantages == pytest.approx(np.zeros(7), abs=1e-15)

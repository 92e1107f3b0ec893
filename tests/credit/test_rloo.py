import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import BY_HAND, table

from sparring.credit.grpo import grpo
from sparring.credit.rloo import rloo


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_golden():
    assert rloo(group([1, 0, 0, 0]), {}).advantages == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_by_hand():
    assert rloo(table(**BY_HAND), {}).advantages == pytest.approx([4.0, 4.0, -4.0, -4.0, 4.0, 4.0, 4.0])


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_it_is_centred_grpo_times_n_over_n_minus_one(returns):
    n = len(returns)
    centred = grpo(group(returns), {}, divide_by_std=False).advantages
    assert rloo(group(returns), {}).advantages == pytest.approx(n / (n - 1) * centred, abs=1e-9)


def test_naive_definition_near_a_million():
    returns = np.array([1e6 + 1, 1e6 + 2, 1e6 + 4])
    naive = [returns[i] - np.delete(returns, i).mean() for i in range(3)]
    assert rloo(group(returns), {}).advantages == pytest.approx(naive, abs=1e-6)


def test_group_of_one_gives_zero():
    assert rloo(group([7.0]), {}).advantages.tolist() == [0.0]

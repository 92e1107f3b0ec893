import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.core.errors import CreditError
from sparring.methods.credit.dgrpo import dgrpo
from sparring.methods.credit.grpo import grpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_by_hand():
    # success rate 1/4: weight 1 + 3/4
    assert dgrpo(group([1, 0, 0, 0])).advantages == pytest.approx(1.75 * np.array([1.5, -0.5, -0.5, -0.5]), abs=1e-5)
    assert dgrpo(group([1, 0, 0, 0]), divide_by_std=False, strength=2.0).advantages == pytest.approx([1.875, -0.625, -0.625, -0.625])


def test_worst_and_best_set_the_scale():
    # mean -0.5 between -1 and 1: p = 1/4
    advantages = dgrpo(group([1, -1, -1, -1]), worst=-1.0, divide_by_std=False).advantages
    assert advantages == pytest.approx(1.75 * np.array([1.5, -0.5, -0.5, -0.5]))


def test_rates_are_cut_to_between_none_and_all():
    assert dgrpo(group([5, 7]), divide_by_std=False).advantages == pytest.approx([-1, 1])
    assert dgrpo(group([-5, -7]), divide_by_std=False).advantages == pytest.approx([2, -2])


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.booleans())
def test_without_strength_it_is_grpo(returns, divide):
    turns = table([[value] for value in returns], groups=[index // 3 for index in range(len(returns))])
    expected = grpo(turns, divide_by_std=divide).advantages
    assert dgrpo(turns, strength=0.0, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=8), st.floats(0, 3))
def test_the_weight_lies_between_one_and_one_plus_strength(returns, strength):
    plain = np.abs(dgrpo(group(returns), strength=0.0).advantages)
    weighed = np.abs(dgrpo(group(returns), strength=strength).advantages)
    assert (weighed >= plain - 1e-9).all()
    assert (weighed <= (1 + strength) * plain + 1e-9).all()


def test_epsilon_is_added_to_the_deviation():
    assert dgrpo(group([1, 0, 0, 0]), strength=0.0, epsilon=0.5).advantages == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_roles_have_their_own_difficulty():
    # role 0: mean 1, p = 1; role 1: mean -1, p = 0: weight 2
    assert dgrpo(table(**BY_HAND), divide_by_std=False).advantages == pytest.approx([2, 2, -4, -2, 4, 4, 4])


def test_best_must_be_above_worst():
    with pytest.raises(CreditError, match=r"best 0\.0 is not above worst 0\.0"):
        dgrpo(group([1, 0]), best=0.0)


def test_hard_inputs():
    for divide in (True, False):
        assert dgrpo(group([7.0]), divide_by_std=divide).advantages.tolist() == [0.0]
        assert dgrpo(table([]), divide_by_std=divide).advantages.shape == (0,)
        assert dgrpo(group([0.1] * 7), divide_by_std=divide).advantages == pytest.approx(np.zeros(7), abs=1e-12)
    assert dgrpo(group([1e6 + 1, 1e6 + 3]), divide_by_std=False).advantages == pytest.approx([-1, 1], abs=1e-6)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.loop import loop
from sparring.methods.credit.rloo import rloo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_golden():
    assert loop(group([1, 0, 0, 0])).advantages == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_golden_with_division():
    # sample deviation 1/2
    assert loop(group([1, 0, 0, 0]), divide_by_std=True).advantages == pytest.approx([2.0, -2 / 3, -2 / 3, -2 / 3])


def test_by_hand_small_advantages_vanish():
    # means of the others: 1.5, 1.5 + 1/3 ...: advantages of 0, 1, 1.02, 3 are -1.6733, -0.34, -0.3133, 2.3267
    exact = np.array([0 - 5.02 / 3, 1 - 4.02 / 3, 1.02 - 4 / 3, 3 - 2.02 / 3])
    assert loop(group([0, 1, 1.02, 3]), min_advantage=0.33).advantages == pytest.approx([exact[0], exact[1], 0.0, exact[3]])


def test_the_threshold_itself_is_kept_and_by_default_it_is_a_hundredth():
    assert loop(group([0.25, 0.0]), min_advantage=0.25).advantages.tolist() == [0.25, -0.25]
    assert loop(group([0.009, 0.0])).advantages.tolist() == [0.0, 0.0]
    assert loop(group([0.011, 0.0])).advantages == pytest.approx([0.011, -0.011])


def test_the_threshold_applies_after_the_division():
    assert loop(group([0.009, 0.0]), divide_by_std=True).advantages == pytest.approx([2**0.5, -(2**0.5)])


@given(st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_without_a_threshold_it_is_rloo(rewards):
    turns = table(rewards, groups=[index // 3 for index in range(len(rewards))])
    assert loop(turns, min_advantage=0.0).advantages == pytest.approx(rloo(turns).advantages, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.floats(0, 5))
def test_the_threshold_moves_no_advantage_by_more_than_itself(returns, threshold):
    cut = loop(group(returns), min_advantage=threshold).advantages
    assert (np.abs(cut - rloo(group(returns)).advantages) <= threshold + 1e-9).all()
    assert ((cut == 0) | (np.abs(cut) >= threshold)).all()


def test_the_deviation_is_never_below_its_floor():
    advantages = loop(group([1e-9, 0.0]), divide_by_std=True, min_advantage=0.0).advantages
    assert advantages == pytest.approx([1e-2, -1e-2])


def test_roles_are_kept_apart():
    assert loop(table(**BY_HAND)).advantages == pytest.approx([4.0, 4.0, -4.0, -4.0, 4.0, 4.0, 4.0])


def test_hard_inputs():
    for divide in (True, False):
        assert loop(group([7.0]), divide_by_std=divide).advantages.tolist() == [0.0]
        assert not loop(group([0.1] * 7), divide_by_std=divide, min_advantage=0.0).advantages.any()
        assert not loop(group([0.1 + 0.2, 0.3]), divide_by_std=divide, min_advantage=0.0).advantages.any()
        assert loop(table([]), divide_by_std=divide).advantages.shape == (0,)
    assert loop(group([1e6 + 1, 1e6 + 2])).advantages == pytest.approx([-1, 1], abs=1e-6)

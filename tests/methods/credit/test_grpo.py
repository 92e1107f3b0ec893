import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, group_of, table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.grpo import grpo


def test_golden():
    assert grpo(group_of([1, 0, 0, 0])).advantages == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)


def test_by_hand_without_division():
    # seat 0: returns 3 and -1, mean 1; seat 1: returns -3 and 1, mean -1
    expected = [2.0, 2.0, -2.0, -2.0, 2.0, 2.0, 2.0]
    assert grpo(table(**BY_HAND), divide_by_std=False).advantages == pytest.approx(expected)


def test_by_hand_with_division():
    # deviations: seat 0 of (3, -1) and seat 1 of (-3, 1) are both 2 sqrt(2)
    expected = np.array([1, 1, -1, -1, 1, 1, 1]) / 2**0.5
    assert grpo(table(**BY_HAND)).advantages == pytest.approx(expected, abs=1e-6)


def test_dr_grpo_is_the_preset_without_division():
    turns = group_of([1, 0, 0, 0])
    assert bind("credit", "grpo", preset="dr_grpo")(turns, {}).advantages == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_over_turns_weighs_long_games_more():
    turns = table([[3.0], [0.0, 0.0]], groups=[0, 0])
    assert grpo(turns, divide_by_std=False, over="turns").advantages == pytest.approx([2.0, -1.0, -1.0])
    assert grpo(turns, divide_by_std=False, over="episodes").advantages == pytest.approx([1.5, -1.5, -1.5])


def test_over_turns_also_the_deviation_is_over_turns():
    turns = table([[3.0], [0.0, 0.0]], groups=[0, 0])
    # values 3, 0, 0: mean 1, sample deviation sqrt(3), population deviation sqrt(2)
    assert grpo(turns, over="turns").advantages == pytest.approx(np.array([2, -1, -1]) / 3**0.5, abs=1e-5)
    assert grpo(turns, over="turns", ddof=0).advantages == pytest.approx(np.array([2, -1, -1]) / 2**0.5, abs=1e-5)


def test_epsilon_is_added_to_the_deviation():
    assert grpo(group_of([1, 0, 0, 0]), epsilon=0.25).advantages == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=6).filter(lambda returns: np.std(returns) > 1e-3),
    st.floats(0.5, 1000),
)
def test_with_division_the_scale_of_rewards_is_irrelevant(returns, factor):
    scaled = grpo(group_of([factor * value for value in returns]), epsilon=0.0).advantages
    assert scaled == pytest.approx(grpo(group_of(returns), epsilon=0.0).advantages, abs=1e-6)


def test_baselines_belong_to_roles_and_not_to_seats():
    # role 0 sits in seat 0, then in seat 1
    turns = table([[1.0], [10.0], [3.0], [30.0]], seats=[0, 1, 1, 0], roles=[0, 1, 0, 1], groups=[0] * 4)
    assert grpo(turns, divide_by_std=False).advantages == pytest.approx([-1.0, -10.0, 1.0, 10.0])

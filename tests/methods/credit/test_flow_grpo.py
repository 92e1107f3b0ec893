import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.flow_grpo import flow_grpo
from sparring.methods.credit.grpo import grpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def test_by_hand():
    # samples 3, 0, 0: mean 1, sample deviation sqrt(3); per trajectory 3, 0: mean 1.5, deviation 3 / sqrt(2)
    turns = table([[3.0], [1.0, -1.0]], groups=[0, 0])
    assert flow_grpo(turns).advantages == pytest.approx(np.array([2, -1, -1]) / 3**0.5, abs=1e-5)
    assert flow_grpo(turns, weigh="trajectories").advantages == pytest.approx(np.array([1, -1, -1]) / 2**0.5, abs=1e-5)


@given(REWARDS)
def test_weighing_trajectories_it_is_grpo(rewards):
    turns = table(rewards, groups=[index // 3 for index in range(len(rewards))])
    assert np.array_equal(flow_grpo(turns, weigh="trajectories").advantages, grpo(turns).advantages)
    assert np.array_equal(flow_grpo(turns).advantages, grpo(turns, over="turns").advantages)


@given(REWARDS)
def test_the_turns_of_a_group_are_centred(rewards):
    assert flow_grpo(table(rewards, groups=[0] * len(rewards))).advantages.sum() == pytest.approx(0, abs=1e-6)


def test_epsilon_is_added_to_the_deviation():
    turns = table([[1.0], [-1.0]], groups=[0, 0])
    assert flow_grpo(turns, epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])


def test_hard_inputs():
    for weigh in ("turns", "trajectories"):
        assert flow_grpo(table([[7.0, 1.0]]), weigh=weigh).advantages.tolist() == [0.0, 0.0]
        assert flow_grpo(table([]), weigh=weigh).advantages.shape == (0,)
        equal = flow_grpo(table([[0.1]] * 7, groups=[0] * 7), weigh=weigh).advantages
        assert equal == pytest.approx(np.zeros(7), abs=1e-9)
        near = flow_grpo(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), weigh=weigh).advantages
        assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)

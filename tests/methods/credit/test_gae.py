import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.gae import gae
from sparring.ops.returns import discounted_returns


def test_by_hand():
    turns = table([[0.0, 0.0, 1.0], [-1.0]], values=[0.1, 0.2, 0.3, -0.5], seats=[0, 1])
    delta = [0.9 * 0.2 - 0.1, 0.9 * 0.3 - 0.2, 1 - 0.3, -1 + 0.5]
    second = delta[1] + 0.45 * delta[2]
    expected = [delta[0] + 0.45 * second, second, delta[2], delta[3]]
    credit = gae(turns, gamma=0.9, lam=0.5)
    assert credit.advantages == pytest.approx(expected)
    assert credit.value_targets == pytest.approx(np.array(expected) + np.array([0.1, 0.2, 0.3, -0.5]))


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=5), min_size=1, max_size=5), st.floats(0, 1))
def test_with_lambda_one_and_no_critic_it_is_the_return(rewards, gamma):
    turns = table(rewards, values=[0.0] * sum(map(len, rewards)))
    expected = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    assert gae(turns, gamma=gamma, lam=1.0).advantages == pytest.approx(expected, abs=1e-9)


def test_lambda_zero_is_the_one_step_difference():
    turns = table([[1.0, 2.0]], values=[5.0, 7.0])
    assert gae(turns, lam=0.0).advantages == pytest.approx([1 + 7 - 5, 2 - 7])


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_a_perfect_critic_leaves_no_advantage(rewards):
    values = np.cumsum(rewards[::-1])[::-1]
    assert gae(table([rewards], values=values), lam=0.7).advantages == pytest.approx(np.zeros(len(rewards)), abs=1e-9)


def test_whitening():
    turns = table([[1.0, 2.0], [4.0]], values=[0.0, 0.0, 0.0])
    advantages = gae(turns, whiten=True).advantages
    assert (advantages.mean(), advantages.std(ddof=1)) == (pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-6))


def test_whitening_leaves_a_single_turn_alone():
    assert gae(table([[3.0]], values=[1.0]), whiten=True).advantages.tolist() == [2.0]


def test_the_targets_are_not_whitened():
    turns = table([[1.0, 2.0], [4.0]], values=[0.5, 0.5, 0.5])
    assert gae(turns, whiten=True).value_targets == pytest.approx(gae(turns).value_targets)


def test_by_default_gamma_is_one_and_lambda_095():
    turns = table([[0.0, 1.0]], values=[0.25, 0.5])
    assert gae(turns).advantages == pytest.approx([0.25 + 0.95 * 0.5, 0.5])


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(-1e6, 1e6))
def test_a_critic_and_an_outcome_shifted_alike_change_nothing(rewards, shift):
    values = np.linspace(-1, 1, len(rewards))
    plain = gae(table([rewards], values=values), lam=0.7).advantages
    shifted = gae(table([[*rewards[:-1], rewards[-1] + shift]], values=values + shift), lam=0.7).advantages
    assert shifted == pytest.approx(plain, abs=1e-6)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0.1, 10))
def test_scaling_rewards_and_values_scales_advantages(rewards, factor):
    values = np.linspace(-1, 1, len(rewards))
    scaled = gae(table([[factor * reward for reward in rewards]], values=factor * values), lam=0.7).advantages
    assert scaled == pytest.approx(factor * gae(table([rewards], values=values), lam=0.7).advantages, abs=1e-9)


def test_an_empty_table_is_fine():
    credit = gae(table([], values=[]), whiten=True)
    assert credit.advantages.shape == credit.value_targets.shape == (0,)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from sparring.credit.gae import gae
from sparring.errors import CreditError
from sparring.ops.returns import discounted_returns


def test_by_hand():
    turns = table([[0.0, 0.0, 1.0], [-1.0]], values=[0.1, 0.2, 0.3, -0.5], seats=[0, 1])
    delta = [0.9 * 0.2 - 0.1, 0.9 * 0.3 - 0.2, 1 - 0.3, -1 + 0.5]
    second = delta[1] + 0.45 * delta[2]
    expected = [delta[0] + 0.45 * second, second, delta[2], delta[3]]
    credit = gae(turns, {}, gamma=0.9, lam=0.5)
    assert credit.advantages == pytest.approx(expected)
    assert credit.value_targets == pytest.approx(np.array(expected) + np.array([0.1, 0.2, 0.3, -0.5]))


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=5), min_size=1, max_size=5), st.floats(0, 1))
def test_with_lambda_one_and_no_critic_it_is_the_return(rewards, gamma):
    turns = table(rewards, values=[0.0] * sum(map(len, rewards)))
    expected = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    assert gae(turns, {}, gamma=gamma, lam=1.0).advantages == pytest.approx(expected, abs=1e-9)


def test_lambda_zero_is_the_one_step_difference():
    turns = table([[1.0, 2.0]], values=[5.0, 7.0])
    assert gae(turns, {}, lam=0.0).advantages == pytest.approx([1 + 7 - 5, 2 - 7])


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_a_perfect_critic_leaves_no_advantage(rewards):
    values = np.cumsum(rewards[::-1])[::-1]
    assert gae(table([rewards], values=values), {}, lam=0.7).advantages == pytest.approx(np.zeros(len(rewards)), abs=1e-9)


def test_whitening():
    turns = table([[1.0, 2.0], [4.0]], values=[0.0, 0.0, 0.0])
    advantages = gae(turns, {}, whiten=True).advantages
    assert (advantages.mean(), advantages.std(ddof=1)) == (pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-6))


def test_missing_and_broken_values_are_refused():
    with pytest.raises(CreditError, match="column 'value'"):
        gae(table([[1.0]]), {})
    with pytest.raises(CreditError, match="row 1"):
        gae(table([[1.0, 2.0]], values=[0.0, np.nan]), {})

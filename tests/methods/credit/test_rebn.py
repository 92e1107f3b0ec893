import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.mars import mars
from sparring.methods.credit.rebn import rebn

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=2, max_size=6)


def test_by_hand():
    # turn returns 3, 2, -3, -1, 1, 0.5, 0.5: mean 3/7, squared deviations sum to 165/7, sample deviation sqrt(165/42)
    returns = np.array([3, 2, -3, -1, 1, 0.5, 0.5])
    expected = (returns - 3 / 7) / np.sqrt((9 + 4 + 9 + 1 + 1 + 0.25 + 0.25 - 9 / 7) / 6)
    assert rebn(table(**BY_HAND)).advantages == pytest.approx(expected)


def test_by_hand_discounted():
    # returns 1 + 0.5 * 2, 2, 0: mean 4/3, sample deviation sqrt(4/3)
    advantages = rebn(table([[1.0, 2.0], [0.0]]), gamma=0.5).advantages
    assert advantages == pytest.approx(np.array([2 / 3, 2 / 3, -4 / 3]) / np.sqrt(4 / 3))


@given(REWARDS, st.sampled_from([1.0, 0.9]))
def test_by_role_it_is_mars_with_a_scale(rewards, gamma):
    turns = table(rewards, seats=[index % 2 for index in range(len(rewards))])
    expected = mars(turns, gamma=gamma, scale="std").advantages
    assert rebn(turns, gamma=gamma, by_role=True, epsilon=1e-6).advantages == pytest.approx(expected, abs=1e-6)


def test_by_default_roles_and_games_share_one_mean_and_by_role_they_do_not():
    turns = table([[1.0], [3.0], [10.0], [30.0]], seats=[0, 0, 1, 1], games=[0, 0, 0, 1])
    assert rebn(turns).advantages == pytest.approx((np.array([1, 3, 10, 30]) - 11) / np.std([1, 3, 10, 30], ddof=1))
    assert rebn(turns, by_role=True).advantages == pytest.approx([-(2**-0.5), 2**-0.5, 0, 0])


@given(REWARDS)
def test_the_batch_has_mean_zero_and_deviation_one_or_nothing(rewards):
    advantages = rebn(table(rewards), epsilon=0.0).advantages
    assert advantages.mean() == pytest.approx(0, abs=1e-6)
    if advantages.any():
        assert advantages.std(ddof=1) == pytest.approx(1, abs=1e-6)


def test_epsilon_is_added_to_the_deviation():
    assert rebn(table([[1.0], [-1.0]]), epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])


def test_hard_inputs():
    assert rebn(table([[5.0]])).advantages.tolist() == [0.0]
    assert rebn(table([])).advantages.shape == (0,)
    assert not rebn(table([[0.1]] * 7)).advantages.any()
    assert not rebn(table([[0.1 + 0.2], [0.3]])).advantages.any()  # equal but for rounding
    near = rebn(table([[1e6 + 1], [1e6 + 3]])).advantages
    assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-6)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.a_grae import a_grae
from sparring.methods.credit.grpo import grpo


def fours(returns):
    return table([[value] for value in returns], groups=[index // 4 for index in range(len(returns))])


def test_by_hand():
    # p = 1/4 and 1/2, omega = 3/8
    turns = fours([1, 0, 0, 0, 1, 1, 0, 0])
    base = grpo(turns).advantages
    hard = 0.5 * (3 / 8 / 0.5 + 5 / 8 / 0.75**0.5)
    even = 0.5 * (3 / 8 / 0.5**0.5 + 5 / 8 / 0.5**0.5)
    expected = base * np.repeat([hard, even], 4) * np.where(base > 0, 3 / 8, 1)
    credit = a_grae(turns)
    assert credit.advantages == pytest.approx(expected)
    assert credit.metrics["success_rate"] == pytest.approx(3 / 8)


def test_alpha_is_the_rate_from_which_successes_count_in_full():
    turns = fours([1, 0, 0, 0, 1, 1, 0, 0])
    plain, half, low = (a_grae(turns, alpha=alpha).advantages for alpha in (1.0, 0.5, 0.25))
    right = plain > 0
    assert half[right] == pytest.approx(2 * plain[right])
    assert low[right] == pytest.approx(plain[right] * 8 / 3)
    assert np.array_equal(half[~right], plain[~right])
    assert np.array_equal(low[~right], plain[~right])


def test_success_is_a_threshold():
    assert np.array_equal(a_grae(fours([3, 2, 2, 2]), success=3.0).advantages != 0, [True] * 4)
    assert not a_grae(fours([3, 2, 2, 2]), success=3.1).advantages.any()
    assert not a_grae(fours([3, 2, 2, 2])).advantages.any()  # all succeed: nothing, though they differ


@given(st.lists(st.permutations([0.0, 0.0, 1.0, 1.0]), min_size=1, max_size=3))
def test_when_every_group_succeeds_half_of_the_time_it_is_grpo_over_root_two(groups):
    """omega = p = 1/2: the weight is 1 / sqrt(2), and alpha = 1/2 keeps successes whole."""
    turns = fours([value for group in groups for value in group])
    assert a_grae(turns, alpha=0.5).advantages == pytest.approx(grpo(turns).advantages / 2**0.5)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=16), st.sampled_from([0.5, 1.0]))
def test_it_equals_a_naive_derivation(returns, alpha):
    groups = [returns[index : index + 4] for index in range(0, len(returns), 4)]
    omega = sum(sum(group) / len(group) for group in groups) / len(groups)
    base, expected = grpo(fours(returns)).advantages, []
    for value, a0 in zip(returns, base, strict=True):
        group = groups[len(expected) // 4]
        p = sum(group) / len(group)
        a = 0.0 if p in (0, 1) else omega * 0.5 * a0 / p**0.5 + (1 - omega) * 0.5 * a0 / (1 - p) ** 0.5
        expected.append(a * min(1, omega / alpha) if a > 0 else a)
        assert value in group
    assert a_grae(fours(returns), alpha=alpha).advantages == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=16))
def test_successes_go_up_and_failures_go_down(returns):
    advantages = a_grae(fours(returns)).advantages
    assert (advantages[np.array(returns) == 1] >= 0).all()
    assert (advantages[np.array(returns) == 0] <= 0).all()


def test_hard_inputs():
    assert a_grae(fours([7.0])).advantages.tolist() == [0.0]
    assert a_grae(table([])).advantages.shape == (0,)
    assert not a_grae(fours([0.1] * 8)).advantages.any()
    near = a_grae(fours([1e6 + 1, 1e6 + 3, 1e6 + 3, 1e6 + 1]), success=1e6 + 2, alpha=0.5).advantages
    assert near == pytest.approx(np.array([-1, 1, 1, -1]) * 3**0.5 / 2 / 2**0.5, abs=1e-5)


def test_epsilon_and_state():
    assert a_grae(fours([1, 0, 1, 0]), alpha=0.5, epsilon=3**-0.5).advantages == pytest.approx(
        np.array([1, -1, 1, -1]) * 3**0.5 / 32**0.5
    )

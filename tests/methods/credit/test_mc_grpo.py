import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mc_grpo import mc_grpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_golden():
    advantages = mc_grpo(group([0, 0.2, 0.5, 0.9, 1])).advantages
    assert advantages == pytest.approx([-1.247, -0.748, 0, 0.998, 1.247], abs=1e-3)


def test_epsilon_is_added_to_the_deviation():
    assert mc_grpo(group([0, 0.2, 0.5, 0.9, 1]), epsilon=0.1).advantages == pytest.approx([-1, -0.6, 0, 0.8, 1])


def test_groups_of_even_size_take_the_lower_of_the_middle_two():
    # median 1, distances 1, 0, 2, 5: lower median 1
    assert mc_grpo(group([0, 1, 3, 6])).advantages == pytest.approx(np.array([-1, 0, 2, 5]) / 1.001)


def test_without_a_deviation_it_falls_back_to_grpo_or_amplifies():
    turns = group([0, 0, 0, 1, 0])
    assert mc_grpo(turns).advantages == pytest.approx(grpo(turns).advantages)
    assert bind("credit", "mc_grpo", preset="as_released")(turns, {}).advantages == pytest.approx([0, 0, 0, 1000, 0])


def test_the_fallback_is_per_group():
    turns = table([[v] for v in (0, 0, 1, 0, 1, 3)], groups=[0, 0, 0, 1, 1, 1])
    advantages = mc_grpo(turns).advantages
    assert advantages[:3] == pytest.approx(grpo(group([0, 0, 1])).advantages)
    assert advantages[3:] == pytest.approx(np.array([-1, 0, 2]) / 1.001)


@given(EIGHTHS, st.integers(1, 80).map(lambda number: number / 8), st.integers(3, 5).filter(lambda n: n % 2))
def test_of_evenly_spaced_returns_it_is_grpo_on_another_scale(low, step, n):
    """Mean and median agree, so what is left is std over MAD."""
    returns = [low + step * index for index in range(n)]
    scale = np.std(returns, ddof=1) / step  # distances from the median: 0, 1, 1[, 2, 2] steps
    expected = grpo(group(returns), epsilon=0.0).advantages * scale
    assert mc_grpo(group(returns), epsilon=1e-12).advantages == pytest.approx(expected)


@given(st.lists(EIGHTHS, min_size=2, max_size=9))
def test_it_equals_a_naive_derivation(returns):
    median = statistics.median_low(returns)
    mad = statistics.median_low([abs(value - median) for value in returns])
    expected = [(value - median) / (mad + 1e-3) for value in returns]
    assert mc_grpo(group(returns), without_deviation="amplify").advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(EIGHTHS, min_size=3, max_size=9, unique=True).filter(lambda r: len(r) % 2 == 1), st.floats(1, 1e4))
def test_how_lucky_the_best_was_does_not_move_the_others_centre(returns, more):
    luckier = [value + more * (value == max(returns)) for value in returns]
    plain, moved = mc_grpo(group(returns)).advantages, mc_grpo(group(luckier)).advantages
    assert np.array_equal(np.sign(plain), np.sign(moved))


def test_roles_and_turns():
    turns = table([[1.0, 1.0], [5.0], [0.0], [5.0], [1.0], [5.0]], seats=[0, 1] * 3, groups=[0] * 6)
    assert mc_grpo(turns).advantages == pytest.approx(np.array([1, 1, 0, -1, 0, 0, 0]) / 1.001)


@pytest.mark.parametrize("rule", ["standardise", "amplify"])
def test_hard_inputs(rule):
    assert mc_grpo(group([7.0]), without_deviation=rule).advantages.tolist() == [0.0]
    assert mc_grpo(table([]), without_deviation=rule).advantages.shape == (0,)
    assert not mc_grpo(group([0.1] * 7), without_deviation=rule).advantages.any()
    assert not mc_grpo(group([0.1 + 0.2, 0.3]), without_deviation=rule).advantages.any()
    near = mc_grpo(group([1e6 + 1, 1e6 + 3, 1e6 + 4]), without_deviation=rule).advantages
    assert near == pytest.approx(np.array([-2, 0, 1]) / 1.001)

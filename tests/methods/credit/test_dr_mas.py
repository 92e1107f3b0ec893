import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.dr_mas import dr_mas
from sparring.methods.credit.grpo import grpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def team(rewards):
    """Two roles, groups of four trajectories."""
    count = len(rewards)
    return table(rewards, seats=[index % 2 for index in range(count)], groups=[index // 4 for index in range(count)])


def test_by_hand_per_agent():
    # seat 0: samples 3, 3, -1: mean 5/3, sample deviation 4/sqrt(3); seat 1: -3, 1, 1, 1: mean 0, sample deviation 2
    expected = [1 / 3**0.5, 1 / 3**0.5, -1.5, -2 / 3**0.5, 0.5, 0.5, 0.5]
    assert dr_mas(table(**BY_HAND)).advantages == pytest.approx(expected, abs=1e-5)


def test_by_hand_global():
    # samples 3, 3, -3, -1, 1, 1, 1: mean 5/7
    samples = np.array([3, 3, -3, -1, 1, 1, 1])
    advantages = bind("credit", "dr_mas", preset="global")(table(**BY_HAND), {}).advantages
    assert advantages == pytest.approx((samples - 5 / 7) / samples.std(ddof=1), abs=1e-5)


def test_each_statistic_has_its_own_scope():
    samples = np.array([3, 3, -3, -1, 1, 1, 1])
    own_mean, own_std = np.array([5, 5, 0, 5, 0, 0, 0]) / 3, np.where([1, 1, 0, 1, 0, 0, 0], 4 / 3**0.5, 2)
    mixed = dr_mas(table(**BY_HAND), std="global").advantages
    assert mixed == pytest.approx((samples - own_mean) / samples.std(ddof=1), abs=1e-5)
    mixed = dr_mas(table(**BY_HAND), mean="global").advantages
    assert mixed == pytest.approx((samples - 5 / 7) / own_std, abs=1e-5)


@given(REWARDS, st.sampled_from(["turns", "episodes"]))
def test_per_role_it_is_grpo(rewards, over):
    turns = team(rewards)
    assert dr_mas(turns, over=over).advantages == pytest.approx(grpo(turns, over=over).advantages, abs=1e-4)


@given(REWARDS, st.sampled_from(["turns", "episodes"]))
def test_with_global_statistics_it_is_grpo_of_a_team_without_roles(rewards, over):
    turns = team(rewards)
    alike = dataclasses.replace(turns, role=np.zeros_like(turns.role))
    estimate = dr_mas(turns, mean="global", std="global", over=over).advantages
    assert estimate == pytest.approx(grpo(alike, over=over).advantages, abs=1e-4)


def test_agents_may_be_told_apart_by_name():
    turns = team([[1.0], [1.0], [2.0], [4.0]])
    named = dataclasses.replace(turns, agent=np.array([0, 0, 1, 1]), agent_names=("one", "two"))
    assert dr_mas(named, agent_is="agent").advantages == pytest.approx([0, 0, -(2**-0.5), 2**-0.5], abs=1e-5)
    assert dr_mas(named).advantages == pytest.approx(np.array([-1, -1, 1, 1]) / 2**0.5, abs=1e-5)


@given(REWARDS, st.floats(0.1, 10), st.floats(-10, 10))
def test_one_agents_scale_and_shift_do_not_touch_the_others(rewards, factor, shift):
    moved = [[factor * v for v in values[:-1]] + [factor * values[-1] + shift] if i % 2 else values for i, values in enumerate(rewards)]
    before, after = dr_mas(team(rewards)).advantages, dr_mas(team(moved)).advantages
    first = team(rewards).role == 0
    assert after[first] == pytest.approx(before[first], abs=1e-9)


def test_epsilon_is_added_to_the_deviation():
    turns = team([[1.0], [0.0], [-1.0], [0.0]])
    assert dr_mas(turns, epsilon=2**0.5).advantages == pytest.approx([8**-0.5, 0, -(8**-0.5), 0])


@pytest.mark.parametrize("options", [{}, {"mean": "global"}, {"std": "global"}, {"mean": "global", "std": "global"}])
def test_hard_inputs(options):
    for over in ("turns", "episodes"):
        assert dr_mas(table([[5.0]]), over=over, **options).advantages.tolist() == [0.0]
        assert dr_mas(table([]), over=over, **options).advantages.shape == (0,)
        assert not dr_mas(team([[0.1]] * 8), over=over, **options).advantages.any()
        near = dr_mas(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), over=over, **options).advantages
        assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.gpg import gpg
from sparring.methods.credit.grpo import grpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def pairs(returns):
    return table([[value] for value in returns], groups=[index // 2 for index in range(len(returns))])


def test_by_hand():
    # two of six trajectories are in a group that differs: factor 3
    credit = gpg(pairs([1, 1, 0, 4, 2, 2]))
    assert credit.advantages.tolist() == [0, 0, -6, 6, 0, 0]
    assert credit.metrics["useful_share"] == pytest.approx(1 / 3)


@given(st.lists(EIGHTHS, min_size=2, max_size=8, unique=True).filter(lambda returns: len(returns) % 2 == 0))
def test_when_all_groups_differ_it_is_dr_grpo(returns):
    assert gpg(pairs(returns)).advantages == pytest.approx(grpo(pairs(returns), divide_by_std=False).advantages, abs=1e-12)


@given(st.lists(EIGHTHS, min_size=4, max_size=12))
def test_it_equals_a_naive_derivation(returns):
    groups = [returns[index : index + 2] for index in range(0, len(returns), 2)]
    useful = sum(len(group) for group in groups if max(group) > min(group))
    expected = [(v - sum(group) / len(group)) * len(returns) / max(useful, 1) for group in groups for v in group]
    assert gpg(pairs(returns)).advantages == pytest.approx(expected, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=2, max_size=8), st.integers(0, 5))
def test_the_mean_step_does_not_shrink_with_groups_that_teach_nothing(returns, more):
    few, many = gpg(pairs(returns[:2])).advantages, gpg(pairs([*returns[:2], *[3.0] * 2 * more])).advantages
    assert np.abs(many).mean() == pytest.approx(np.abs(few).mean(), abs=1e-9)


def test_hard_inputs():
    assert gpg(pairs([7.0])).advantages.tolist() == [0.0]
    assert gpg(table([])).advantages.shape == (0,)
    assert gpg(pairs([0.1] * 6)).advantages.tolist() == [0.0] * 6
    assert gpg(pairs([0.1] * 6)).metrics["useful_share"] == 0.0
    assert gpg(pairs([0.1 + 0.2, 0.3, 1.0, 0.0])).advantages == pytest.approx([0, 0, 1, -1])
    assert gpg(pairs([1e6 + 1, 1e6 + 3])).advantages == pytest.approx([-1, 1], abs=1e-6)


def test_roles_are_kept_apart_and_turns_of_a_trajectory_share():
    turns = table([[1.0, 2.0], [9.0], [1.0], [9.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    # role 0: returns 3 and 1; role 1 equal: factor 2
    assert gpg(turns).advantages.tolist() == [2, 2, 0, -2, 0]

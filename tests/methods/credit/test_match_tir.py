import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.match_tir import match_tir


def drawn(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=length).tolist() for length in generator.integers(1, 5, 9)]
    return table(rewards, groups=generator.integers(0, 2, 9), roles=generator.integers(0, 2, 9))


def test_by_hand():
    turns = table([[1.0, 2.0], [0.0, 0.0, 1.0]], groups=[0, 0])
    # returns 3 and 1; to go, halved a turn: 2, 2 and 0.25, 0.5, 1; the third turn has one member
    whole, here = np.array([1, 1, -1, -1, -1]), np.array([0.875, 0.75, -0.875, -0.75, 0.0])
    assert match_tir(turns, gamma=0.5, divide_by_std=False).advantages == pytest.approx(0.5 * whole + 0.5 * here)
    mixed = match_tir(turns, gamma=0.5, divide_by_std=False, turn_share=0.25).advantages
    assert mixed == pytest.approx(0.75 * whole + 0.25 * here)
    # of two, the sample deviation is the half difference times sqrt(2)
    divided = match_tir(turns, gamma=0.5).advantages
    assert divided == pytest.approx(np.array([1, 1, -1, -1, -0.5]) / 2**0.5, abs=1e-5)
    assert match_tir(turns, epsilon=1e9).advantages == pytest.approx(np.zeros(5), abs=1e-8)


def test_the_papers_discount_is_the_default():
    turns = table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0])
    assert match_tir(turns, turn_share=1.0, divide_by_std=False).advantages == pytest.approx([0.45, 0.5, -0.45, -0.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("divide", [True, False])
def test_without_turns_it_is_grpo_and_so_it_is_in_games_of_one_turn(seed, divide):
    turns = drawn(seed)
    assert np.array_equal(
        match_tir(turns, turn_share=0.0, divide_by_std=divide).advantages, grpo(turns, divide_by_std=divide).advantages
    )
    short = table([[value] for value in turns.reward], groups=turns.group, roles=turns.role)
    same = grpo(short, divide_by_std=divide).advantages
    assert match_tir(short, divide_by_std=divide).advantages == pytest.approx(same, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_plain_loops(seed):
    turns = drawn(seed)
    rows = range(len(turns.reward))
    same = [[turns.trajectory[i] == turns.trajectory[j] for j in rows] for i in rows]
    togo = [sum(0.9 ** (j - i) * turns.reward[j] for j in rows if j >= i and same[i][j]) for i in rows]
    keys = list(zip(turns.group, turns.role, turns.turn_index, strict=True))
    expected = []
    for row in rows:
        alike = [togo[j] for j in rows if keys[j] == keys[row]]
        here = 0.0 if len(alike) == 1 else (togo[row] - np.mean(alike)) / (np.std(alike, ddof=1) + 1e-6)
        expected.append((grpo(turns).advantages[row] + here) / 2)
    assert match_tir(turns).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-1e6, 1e6))
def test_a_shift_of_all_first_rewards_changes_nothing(seed, shift):
    turns = drawn(seed)
    moved = dataclasses.replace(turns, reward=turns.reward + shift * (turns.turn_index == 0))
    plain = match_tir(turns, divide_by_std=False).advantages
    assert match_tir(moved, divide_by_std=False).advantages == pytest.approx(plain, abs=1e-6)


def test_hard_tables():
    assert match_tir(table([])).advantages.shape == (0,)
    assert not match_tir(table([[5.0, 1.0]])).advantages.any()
    assert match_tir(table([[1e6 + 0.1] * 2] * 5, groups=[0] * 5)).advantages == pytest.approx(np.zeros(10), abs=1e-3)

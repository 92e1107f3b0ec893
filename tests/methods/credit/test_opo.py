import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.opo import opo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def test_by_hand():
    # lengths 6 and 2, returns 3 and -1: baseline (18 - 2) / 8 = 2; seat 1: lengths 2 and 6, returns -3 and 1: baseline 0
    turns = table(**BY_HAND, tokens=[5, 1, 2, 2, 1, 2, 3])
    assert opo(turns).advantages == pytest.approx([1, 1, -3, -3, 1, 1, 1])


def test_by_hand_lengths_in_turns():
    # lengths 2 and 1: baseline (6 - 1) / 3 = 5/3; lengths 1 and 3: baseline (-3 + 3) / 4 = 0
    turns = table(**BY_HAND, tokens=[5, 1, 2, 2, 1, 2, 3])
    assert opo(turns, length="turns").advantages == pytest.approx([4 / 3, 4 / 3, -3, -8 / 3, 1, 1, 1])


@given(st.lists(EIGHTHS, min_size=1, max_size=8))
def test_with_equal_lengths_it_is_dr_grpo(returns):
    turns = table([[value] for value in returns], groups=[index // 3 for index in range(len(returns))])
    assert opo(turns).advantages == pytest.approx(grpo(turns, divide_by_std=False).advantages, abs=1e-12)


@given(REWARDS, st.integers(0, 1000))
def test_it_equals_a_naive_derivation_and_the_weighted_sum_is_zero(rewards, seed):
    tokens = np.random.Generator(np.random.Philox(seed)).integers(1, 9, sum(map(len, rewards)))
    bounds = np.cumsum([0, *map(len, rewards)])
    lengths = [int(tokens[a:b].sum()) for a, b in itertools.pairwise(bounds)]
    groups = [index // 3 for index in range(len(rewards))]
    advantages = opo(table(rewards, tokens=tokens, groups=groups)).advantages
    for group in set(groups):
        own = [index for index, number in enumerate(groups) if number == group]
        baseline = sum(lengths[i] * sum(rewards[i]) for i in own) / sum(lengths[i] for i in own)
        for index in own:
            assert advantages[bounds[index] : bounds[index + 1]] == pytest.approx(sum(rewards[index]) - baseline, abs=1e-9)
        assert sum(lengths[i] * advantages[bounds[i]] for i in own) == pytest.approx(0, abs=1e-8)


def test_hard_inputs():
    assert opo(table([[7.0]])).advantages.tolist() == [0.0]
    assert opo(table([])).advantages.shape == (0,)
    assert opo(table([[0.1]] * 7, groups=[0] * 7)).advantages == pytest.approx(np.zeros(7), abs=1e-15)
    near = opo(table([[1e6 + 1], [1e6 + 5]], groups=[0, 0], tokens=[3, 1])).advantages
    assert near == pytest.approx([-1, 3], abs=1e-6)


def test_a_group_without_tokens_falls_back_to_the_plain_mean():
    assert opo(table([[1.0], [3.0]], groups=[0, 0], tokens=[0, 0])).advantages.tolist() == [-1.0, 1.0]

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.xrpo import xrpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns, logprobs, tokens=None):
    turns = table([[value] for value in returns], groups=[0] * len(returns), tokens=tokens or [1] * len(returns))
    return dataclasses.replace(turns, logprob=np.array(logprobs, dtype=float))


def test_by_hand():
    # base (0.5, 0.5, -0.5, -0.5) * 2 / sqrt(4/3); mean score -1: eta of the first exp(-0.1), of the second above 1
    base = 3**0.5 / 2
    turns = group([1, 1, 0, 0], [-1.1, -0.5, -2.0, -0.4])
    expected = [base + 2.5 * (1 - math.exp(-0.1)), base, -base, -base]
    assert xrpo(turns).advantages == pytest.approx(expected, abs=1e-5)


def test_the_bonus_is_capped():
    turns = group([1, 1, 0, 0], [-9.0, -0.5, -2.0, -0.4])
    base = 3**0.5 / 2
    assert xrpo(turns).advantages == pytest.approx([1.5 * base, base, -base, -base], abs=1e-5)
    assert xrpo(turns, cap=0.1).advantages == pytest.approx([1.1 * base, base, -base, -base], abs=1e-5)


def test_scores_are_means_over_the_trajectorys_tokens():
    turns = table([[0.0, 1.0], [1.0], [0.0]], groups=[0] * 3, tokens=[1, 3, 2, 1])
    turns = dataclasses.replace(turns, logprob=np.array([-3.0, -5.0, -2.0, 0.0]))
    # scores -2, -1, 0, mean -1; returns 1, 1, 0: base 1/3 / sqrt(1/3)
    base = 3**-0.5
    bonus = 0.1 * (1 - math.exp(-1))
    assert xrpo(turns, strength=0.1).advantages == pytest.approx([base + bonus] * 2 + [base, -2 * base], abs=1e-5)


@given(st.lists(st.tuples(EIGHTHS, st.floats(-5, 0)), min_size=1, max_size=8), st.sampled_from([(0.0, 0.5), (2.5, 0.0)]))
def test_without_strength_or_cap_it_is_grpo(members, options):
    turns = group(*zip(*members, strict=True))
    expected = grpo(turns).advantages
    assert xrpo(turns, strength=options[0], cap=options[1]).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(EIGHTHS, st.floats(-5, 0)), min_size=1, max_size=8), EIGHTHS)
def test_it_equals_a_naive_derivation(members, success):
    returns, scores = zip(*members, strict=True)
    turns = group(returns, scores)
    expected = []
    for value, score, base in zip(returns, scores, grpo(turns).advantages, strict=True):
        bonus = max(2.5 * (1 - math.exp(score - sum(scores) / len(scores))), 0)
        expected.append(base + min(bonus, 0.5 * base) if value >= success and base > 0 else base)
    assert xrpo(turns, success=success).advantages == pytest.approx(expected, abs=1e-6)


def test_hard_inputs():
    assert xrpo(group([7.0], [-1.0])).advantages.tolist() == [0.0]
    assert xrpo(group([], [])).advantages.shape == (0,)
    assert xrpo(group([0.1] * 7, range(-7, 0))).advantages == pytest.approx(np.zeros(7), abs=1e-9)
    near = xrpo(group([1e6 + 1, 1e6 + 3], [-1e6, 0.0])).advantages
    assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)
    assert np.isfinite(xrpo(group([1, 0], [-1.0, 0.0], tokens=[0, 0])).advantages).all()


def test_epsilon_and_state():
    assert xrpo(group([1, -1], [0, 0]), epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])

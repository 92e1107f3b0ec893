import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.core.errors import CreditError
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.ssl import ssl

PROGRESS = st.integers(0, 16).map(lambda number: number / 16)


def group(outcomes, progress, **kwargs):
    turns = table([[a + b] for a, b in zip(outcomes, progress, strict=True)], groups=[0] * len(outcomes), **kwargs)
    parts = {"game": np.array(outcomes, dtype=float), "best_action": np.array(progress, dtype=float)}
    return dataclasses.replace(turns, components=parts)


def test_by_hand():
    # progress 0.2, 0.25, 0.6, 0.9 reaches 0, 1, 2, 3 of three tiers: rewards 0 + 0, 0 + 1/6, 1 + 1/3, 1 + 1/2; mean 3/4
    advantages = ssl(group([0, 0, 1, 1], [0.2, 0.25, 0.6, 0.9]), divide_by_std=False).advantages
    assert advantages == pytest.approx(np.array([0, 1 / 6, 4 / 3, 3 / 2]) - 0.75)


def test_by_hand_with_division():
    # rewards 0 and 1/2: deviation 1 / sqrt(8)
    assert ssl(group([0, 0], [0, 1])).advantages == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)
    assert ssl(group([0, 0], [0, 1]), epsilon=8**-0.5).advantages == pytest.approx([-(8**-0.5), 8**-0.5])


def test_the_component_is_summed_over_the_trajectory_and_taken_out_of_the_return():
    turns = table([[0.3, 0.3], [0.0]], groups=[0, 0])
    turns = dataclasses.replace(turns, components={"game": np.zeros(3), "best_action": np.array([0.3, 0.3, 0.0])})
    assert ssl(turns, divide_by_std=False).advantages == pytest.approx([1 / 6, 1 / 6, -1 / 6])  # no success, two tiers


def test_tiers_component_success_and_alpha_are_options():
    turns = group([2, 2], [0.2, 0.6])
    assert ssl(turns, tiers=(0.5, 0.1), divide_by_std=False).advantages == pytest.approx([-0.125, 0.125])
    assert ssl(turns, alpha=0.0).advantages.tolist() == [0, 0]
    assert ssl(turns, alpha=0.9, divide_by_std=False).advantages == pytest.approx([-0.3, 0.3])
    other = ssl(turns, component="game", tiers=(3.0,), success=0.5, divide_by_std=False).advantages
    assert other == pytest.approx([-0.5, 0.5])  # the rest is 0.2 and 0.6


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), PROGRESS), min_size=1, max_size=8), st.booleans())
def test_without_tiers_weight_it_is_grpo_on_success(members, divide):
    turns = group(*zip(*members, strict=True))
    success = dataclasses.replace(turns, reward=turns.components["game"])
    expected = grpo(success, divide_by_std=divide).advantages
    assert ssl(turns, alpha=0.0, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), PROGRESS), min_size=1, max_size=8), st.floats(0, 0.99))
def test_no_failure_comes_before_a_success(members, alpha):
    advantages = ssl(group(*zip(*members, strict=True)), alpha=alpha).advantages
    right = np.array([value for value, _ in members]) == 1
    assert not right.any() or right.all() or advantages[right].min() > advantages[~right].max()


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), PROGRESS), min_size=1, max_size=8))
def test_it_equals_a_naive_derivation(members):
    rewards = [value + 0.5 * sum(progress >= tier for tier in (0.25, 0.5, 0.75)) / 3 for value, progress in members]
    expected = np.array(rewards) - sum(rewards) / len(rewards)
    assert ssl(group(*zip(*members, strict=True)), divide_by_std=False).advantages == pytest.approx(expected, abs=1e-12)


def test_a_missing_component_is_refused_by_name():
    with pytest.raises(CreditError, match=r"no reward component 'steps' \(there are: best_action, game"):
        ssl(group([1], [0]), component="steps")
    with pytest.raises(CreditError, match="there are: none"):
        ssl(table([[1.0]]))
    with pytest.raises(CreditError, match="tiers is empty"):
        ssl(group([1], [0]), tiers=())


def test_hard_inputs():
    assert ssl(group([7.0], [0.5])).advantages.tolist() == [0.0]
    assert ssl(table([])).advantages.shape == (0,)
    assert ssl(group([0.1] * 7, [0.3] * 7)).advantages.tolist() == [0.0] * 7
    assert ssl(group([1e6, 1e6], [0.0, 0.8]), divide_by_std=False).advantages == pytest.approx([-0.25, 0.25])

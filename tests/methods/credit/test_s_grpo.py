import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.s_grpo import s_grpo


def group(returns, tokens):
    return table([[value] for value in returns], groups=[0] * len(returns), tokens=tokens)


def test_golden():
    # wrong, right, right, right: 0, 1, 1/2, 1/4, mean 7/16
    assert s_grpo(group([0, 1, 1, 1], [1, 2, 3, 4])).advantages + 7 / 16 == pytest.approx([0, 1, 0.5, 0.25])
    assert s_grpo(group([1, 1, 0, 1], [4, 2, 1, 3])).advantages + 7 / 16 == pytest.approx([0.25, 1, 0, 0.5])


def test_a_wrong_answer_in_between_does_not_count():
    assert s_grpo(group([1, 0, 1], [1, 2, 3])).advantages + 0.5 == pytest.approx([1, 0, 0.5])


def test_equal_lengths_share():
    # the first two places of three: (1 + 1/2) / 2 each
    assert s_grpo(group([1, 1, 1], [2, 2, 5])).advantages + 7 / 12 == pytest.approx([0.75, 0.75, 0.25])


def test_length_in_turns():
    turns = table([[0.0, 1.0], [1.0]], groups=[0, 0], tokens=[1, 1, 9])
    assert s_grpo(turns).advantages == pytest.approx([0.25, 0.25, -0.25])
    assert s_grpo(turns, length="turns").advantages == pytest.approx([-0.25, -0.25, 0.25])


def test_success_is_a_threshold():
    assert s_grpo(group([3, 2], [1, 2]), success=3.0).advantages.tolist() == [0.5, -0.5]
    assert s_grpo(group([3, 2], [1, 2]), success=2.0).advantages.tolist() == [0.25, -0.25]


@given(st.integers(1, 8), st.data())
def test_with_one_success_at_most_it_is_dr_grpo(count, data):
    winner = data.draw(st.integers(0, count))
    turns = group([float(index == winner) for index in range(count)], list(range(count, 0, -1)))
    assert s_grpo(turns).advantages == pytest.approx(grpo(turns, divide_by_std=False).advantages, abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.integers(1, 4)), min_size=1, max_size=12))
def test_it_equals_a_naive_derivation(members):
    rewards = []
    groups = [members[index : index + 5] for index in range(0, len(members), 5)]
    for own in groups:
        lengths = sorted(length for value, length in own if value)
        given_to = {length: np.mean([0.5**j for j, other in enumerate(lengths) if other == length]) for length in lengths}
        values = [given_to[length] if value else 0.0 for value, length in own]
        rewards += [value - sum(values) / len(values) for value in values]
    numbers = [index // 5 for index in range(len(members))]
    turns = table([[value] for value, _ in members], groups=numbers, tokens=[length for _, length in members])
    assert s_grpo(turns).advantages == pytest.approx(rewards, abs=1e-12)


def test_roles_are_kept_apart_and_turns_share():
    turns = table([[1.0, 0.0], [1.0], [1.0], [0.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    assert s_grpo(turns).advantages == pytest.approx([-0.25, -0.25, 0.5, 0.25, -0.5])


def test_hard_inputs():
    assert s_grpo(group([7.0], [3])).advantages.tolist() == [0.0]
    assert s_grpo(table([])).advantages.shape == (0,)
    assert s_grpo(group([0.1] * 7, range(1, 8))).advantages.tolist() == [0.0] * 7
    assert s_grpo(group([1e6] * 3, [4] * 3)).advantages == pytest.approx(np.zeros(3), abs=1e-12)
    assert np.isfinite(s_grpo(group([1.0] * 2000, range(2000))).advantages).all()

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.ngrpo import ngrpo

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


def test_golden():
    assert ngrpo(group([0] * 8)).advantages == pytest.approx([-1 / 3] * 8, abs=1e-5)
    advantages = ngrpo(group([1] * 4 + [0] * 4)).advantages
    assert advantages == pytest.approx([0.843] * 4 + [-1.054] * 4, abs=1e-3)


def test_a_group_all_at_the_best_return_gives_nothing_and_a_group_of_one_is_compared_with_the_virtual_one():
    assert ngrpo(group([1] * 8)).advantages.tolist() == [0.0] * 8
    assert ngrpo(group([1])).advantages.tolist() == [0.0]
    assert ngrpo(group([0])).advantages == pytest.approx([-(2**-0.5)], abs=1e-5)


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.integers(0, 4), EIGHTHS)
def test_it_is_grpo_of_the_group_with_the_virtual_members_put_in(returns, virtual, best):
    together = [*returns, *[best] * virtual]
    expected = grpo(group(together)).advantages[: len(returns)]
    assert ngrpo(group(returns), num_virtual=virtual, best=best).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_on_the_whole_probabilities_are_pushed_down(returns):
    assert ngrpo(group(returns)).advantages.sum() <= 1e-9


def test_roles_groups_and_turns():
    turns = table([[0.0, 0.0], [1.0], [0.0], [0.0]], seats=[0, 1, 0, 1], groups=[0, 0, 0, 0])
    down = -1 / 3 / (1 / 3) ** 0.5  # of 0, 0 and a virtual 1: mean 1/3, deviation sqrt(1/3)
    up = 3**-0.5  # role 1 has 1, 0 and a virtual 1: mean 2/3, deviation sqrt(1/3)
    assert ngrpo(turns).advantages == pytest.approx([down, down, up, down, -2 * up], abs=1e-5)


def test_epsilon_is_added_to_the_deviation():
    assert ngrpo(group([0] * 8), epsilon=1 / 3).advantages == pytest.approx([-1 / 6] * 8)


def test_hard_inputs():
    assert ngrpo(table([])).advantages.shape == (0,)
    assert ngrpo(group([1e6 + 1, 1e6 + 3]), best=1e6 + 5).advantages == pytest.approx([-1, 0], abs=1e-5)
    assert ngrpo(group([7.0]), num_virtual=0).advantages.tolist() == [0.0]
    assert ngrpo(group([0.1] * 7), num_virtual=0).advantages == pytest.approx(np.zeros(7), abs=1e-9)

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.difference_rewards import difference_rewards
from sparring.methods.credit.exact_advantage import exact_advantage

EXACT = runpy.run_path(str(Path(__file__).with_name("test_exact_advantage.py")))
BIAS = EXACT["BIAS"]


def valued(action, state, default):
    columns = {"action_value": np.array(action), "state_value": np.array(state), "default_value": np.array(default)}
    return dataclasses.replace(table([[0.0]] * len(action)), **columns)


def test_by_hand():
    """Actions worth 0, 1 and 5 where the policy plays the last: 5 - 2."""
    credit = difference_rewards(valued([5.0], [5.0], [2.0]))
    assert credit.advantages.tolist() == [3.0]


@pytest.mark.parametrize("default", ["uniform", "policy"])
def test_its_gradient_is_exact_with_either_default(default):
    def estimate(turns):
        return difference_rewards(EXACT["with_exact_values"](turns), default=default)

    assert BIAS["expected_gradient"](estimate, 2) == pytest.approx(BIAS["EXACT"])


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), max_size=10))
def test_against_the_policys_own_action_it_is_the_exact_advantage(rows):
    turns = valued(*([row[i] for row in rows] for i in range(3)))
    assert np.array_equal(difference_rewards(turns, default="policy").advantages, exact_advantage(turns))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), st.floats(-1e6, 1e6))
def test_over_all_actions_it_sums_to_zero_whatever_all_are_worth_more(actions, offset):
    values = np.array(actions) + offset
    turns = valued(values, np.zeros(len(actions)), np.full(len(actions), values.mean()))
    assert difference_rewards(turns).advantages.sum() == pytest.approx(0.0, abs=1e-6)


def test_all_equal_and_no_turns():
    assert difference_rewards(valued([1e6] * 2, [0.0] * 2, [1e6] * 2)).advantages.tolist() == [0.0, 0.0]
    assert difference_rewards(valued([], [], [])).advantages.shape == (0,)

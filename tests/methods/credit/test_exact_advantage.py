import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.exact_advantage import exact_advantage
from sparring.methods.credit.gae import gae

BIAS = runpy.run_path(str(Path(__file__).with_name("test_bias.py")))
P = BIAS["P"]
STATE = [P * 1.0 + (1 - P) * (-0.5 + P * 3.0 + (1 - P) * 1.5), P * 3.0 + (1 - P) * 1.5]
STOP, GO_ON = [1.0, 3.0], [-0.5 + STATE[1], 1.5]


def with_exact_values(turns):
    """The true values of the game of variable length: a trajectory of one turn stopped at once, one of two at its last if it got 3."""
    turn, stopped = turns.turn_index, np.isin(turns.reward, STOP)
    action = np.where(stopped, np.array(STOP)[turn], np.array(GO_ON)[turn])
    default = (np.array(STOP)[turn] + np.array(GO_ON)[turn]) / 2
    return dataclasses.replace(turns, action_value=action, state_value=np.array(STATE)[turn], default_value=default)


def test_by_hand():
    turns = dataclasses.replace(table([[0.0, 1.0]]), action_value=np.array([0.5, 1.0]), state_value=np.array([0.25, -1.0]))
    assert exact_advantage(turns).tolist() == [0.25, 2.0]
    credit = bind("credit", "exact_advantage")(turns, {"kept": 1})  # as the loop calls it
    assert credit.advantages.tolist() == [0.25, 2.0] and credit.state == {"kept": 1}


@pytest.mark.parametrize("members", [1, 2])
def test_its_gradient_is_exact_on_a_game_of_variable_length(members):
    def estimate(turns):
        return bind("credit", "exact_advantage")(with_exact_values(turns), {})

    assert BIAS["expected_gradient"](estimate, members) == pytest.approx(
        BIAS["EXACT"]
    )


def test_the_policy_cannot_expect_any_advantage():
    assert P * (STOP[0] - STATE[0]) + (1 - P) * (GO_ON[0] - STATE[0]) == pytest.approx(0.0)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=5))
def test_where_one_action_leads_to_one_end_it_is_gae_with_a_right_critic(rewards):
    """Q is then the return itself, and with lambda 1 the advantage is the return minus the value."""
    size = sum(map(len, rewards))
    values = np.linspace(-1, 1, size)
    turns = table(rewards, values=values)
    returns = np.concatenate([np.cumsum(own[::-1])[::-1] for own in rewards])
    exact = exact_advantage(dataclasses.replace(turns, action_value=returns, state_value=values))
    assert exact == pytest.approx(gae(turns, lam=1.0).advantages, abs=1e-9)


@given(st.integers(1, 20), st.floats(-1e6, 1e6))
def test_rewards_as_played_do_not_matter_and_an_offset_cancels(size, offset):
    values = np.random.Generator(np.random.Philox(size)).normal(size=(2, size))
    turns = dataclasses.replace(table([[offset]] * size), action_value=values[0] + offset, state_value=values[1] + offset)
    assert exact_advantage(turns) == pytest.approx(values[0] - values[1], abs=1e-8)


def test_all_equal_one_turn_and_no_turns():
    same = dataclasses.replace(table([[1.0]]), action_value=np.ones(1), state_value=np.ones(1))
    assert exact_advantage(same).tolist() == [0.0]
    assert exact_advantage(dataclasses.replace(table([]), action_value=np.zeros(0), state_value=np.zeros(0))).shape == (0,)

"""Needle chain: payoffs, values by hand, prompts, and evaluation of a game with one seat."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.environments.worlds import make_game_factory, make_refusal_test, state_after

game = make_game_factory("needle_chain")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_return_depends_only_on_the_action_at_the_needle(data):
    length, num_actions = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 3))
    needle, may_stop = data.draw(st.integers(1, length)), data.draw(st.booleans())
    state, words = state_after(game(length=length, actions=num_actions, needle=needle, stop=may_stop)), []
    while not state.done:
        assert state.returns == (0.0,)
        assert state.legal_actions() == ("red", "green", "blue")[:num_actions] + (("stop",) if may_stop else ())
        words.append(data.draw(st.sampled_from(state.legal_actions())))
        state.apply(words[-1])
    assert len(words) == length or words[-1] == "stop"
    assert "stop" not in words[:-1]
    assert state.returns == (1.0 if words[needle - 1 : needle] == ["green"] else 0.0,)


@pytest.mark.parametrize(
    ("options", "value", "num_states"),
    [
        ({}, 1 / 2, 63),
        ({"actions": 3, "length": 4}, 1 / 3, 1 + 3 + 9 + 27),
        (
            {"stop": True},
            (2 / 3) ** 2 / 3,
            63,
        ),  # no stop in two steps: (2/3)^2; then green out of red, green, stop: 1/3
        ({"stop": True, "actions": 3, "needle": 1, "length": 2}, 1 / 4, 4),
        ({"length": 1, "needle": 1}, 1 / 2, 1),
    ],
)
def test_values_of_uniform_play_by_hand(options, value, num_states):
    rules = game(**options)
    info_states = enumerate_info_states(rules)
    report = evaluate_exploitability(rules, info_states, UniformScorer())
    assert len(info_states) == num_states
    assert report.values == (pytest.approx(value),)
    assert report.nash_conv == report.optimality_gap == pytest.approx(1 - value)
    assert report.best_joint_value == 1.0


def test_search_keys_views_and_prompts():
    choose_by_search = registry.bind("players", "mcts", {"simulations": 400})().choose
    assert choose_by_search(state_after(game(length=3, needle=2), "red"), 0, Stream.from_seed(1)) == "green"
    rules = game(stop=True)
    assert rules.illegal.forfeit_returns(rules, state_after(rules), 0) == (0.0,)
    assert (game().max_turns, game(length=2, needle=1).max_turns) == (6, 2)
    rules = game()
    state, other_observation = (state_after(rules, *walk).observe(0) for walk in (("red", "green"), ("green", "green")))
    assert state.key == "walk: red green" != other_observation.key
    assert state.view == other_observation.view == "step 3"
    assert state.view != state_after(rules, "red").observe(0).view
    rules = game(stop=True)
    state = state_after(rules, "red", "green")
    assert state.observe(0).text == "needlechain walker red green"
    assert state.observe(0, 2).text == "."
    assert "stop" not in game(style="full").rules and "'stop'" in game(style="full", stop=True).rules


test_options_out_of_range_are_refused = make_refusal_test("needle_chain", {"needle": 7})

"""Needle chain: what pays, what it is worth by hand, that one seat alone is played and evaluated."""

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.measure.exploitability import nash_conv, query_policy
from sparring.measure.info_states import UniformScorer, enumerate_info_states, exact_values
from tests.environments.worlds import after, check_says, maker, refusing

game = maker("needle_chain")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_only_the_action_at_the_needle_decides(data):
    length, actions = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 3))
    needle, stop = data.draw(st.integers(1, length)), data.draw(st.booleans())
    state, walk = after(game(length=length, actions=actions, needle=needle, stop=stop)), []
    while not state.done:
        assert state.returns == (0.0,)
        assert state.legal_actions() == ("red", "green", "blue")[:actions] + (("stop",) if stop else ())
        walk.append(data.draw(st.sampled_from(state.legal_actions())))
        state.apply(walk[-1])
    assert len(walk) == length or walk[-1] == "stop"
    assert "stop" not in walk[:-1]
    assert state.returns == (1.0 if walk[needle - 1 : needle] == ["green"] else 0.0,)


@pytest.mark.parametrize(
    ("options", "value", "states"),
    [
        ({}, 1 / 2, 63),
        ({"actions": 3, "length": 4}, 1 / 3, 1 + 3 + 9 + 27),
        ({"stop": True}, (2 / 3) ** 2 / 3, 63),  # two steps without a stop, then green among red, green, stop
        ({"stop": True, "actions": 3, "needle": 1, "length": 2}, 1 / 4, 4),
        ({"length": 1, "needle": 1}, 1 / 2, 1),
    ],
)
def test_uniform_play_is_worth_what_it_is_by_hand(options, value, states):
    made = game(**options)
    info_states = enumerate_info_states(made)
    report = nash_conv(made, info_states, UniformScorer())
    assert len(info_states) == states
    assert report.values == (pytest.approx(value),)
    assert report.nash_conv == report.optimality_gap == pytest.approx(1 - value)
    assert report.best_joint_value == 1.0


@pytest.mark.parametrize("needle", [1, 3, 6])
def test_true_credit_of_every_other_step_is_nothing(needle):
    info_states = enumerate_info_states(game(needle=needle))
    policy, _ = query_policy(UniformScorer(), info_states)
    values = exact_values(info_states, policy)
    for number, query in enumerate(info_states.queries):
        advantage = (values.action[number] - values.state[number]).tolist()
        assert advantage == ([-0.5, 0.5] if len(query.actions) == needle - 1 else [0.0, 0.0])


def test_a_game_for_one_and_its_wording():
    choose = registry.bind("players", "mcts", {"simulations": 400})().choose
    assert choose(after(game(length=3, needle=2), "red"), 0, Stream.from_seed(1)) == "green"
    made = game(stop=True)
    assert (made.num_seats, made.cooperative, made.zero_sum, made.utility_sum) == (1, True, False, None)
    assert made.illegal.forfeit_returns(made, after(made), 0) == (0.0,)
    assert (game().max_turns, game(length=2, needle=1).max_turns) == (6, 2)
    pyspiel.random_sim_test(made.spiel, num_sims=10, serialize=True, verbose=False)
    made = game()
    one, two = (after(made, *walk).observe(0) for walk in (("red", "green"), ("green", "green")))
    assert one.key == "walk: red green" != two.key
    assert one.view == two.view == "step 3"
    assert one.view != after(made, "red").observe(0).view
    made = game(stop=True)
    assert made.vocabulary() == tuple(sorted([".", "illegal", "needlechain", "walker", "red", "green", "stop"]))
    state = after(made, "red", "green")
    assert state.observe(0).text == "needlechain walker red green"
    assert state.observe(0, 2).text == "."
    text = after(game(style="full", actions=3), "red", "green").observe(0).text
    check_says(text, "6 step(s)", "red, green, blue", "You chose red. You chose green.", "This is step 3 of 6.", "Legal actions: red, green, blue.")
    assert "stop" not in text and "'stop'" in game(style="full", stop=True).rules


test_options_out_of_range_are_refused = refusing("needle_chain", {"needle": 7})

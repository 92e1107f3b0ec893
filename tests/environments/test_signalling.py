"""Signalling: payoffs, who knows what, the best team and uniform play by hand, equilibria that say nothing."""

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.measure.exploitability import nash_conv, query_policy
from sparring.measure.info_states import (
    TabularScorer,
    UniformScorer,
    enumerate_info_states,
    exact_values,
)
from tests.environments.worlds import check_says, maker

RED, GREEN, BLUE = range(3)
game = maker("signalling")


def played(made, drawn, *words):
    """Return the state after nature's type and these actions."""
    spiel = made.spiel.new_initial_state()
    spiel.apply_action(drawn)
    state = made.state_of(spiel)
    for word in words:
        state.apply(word)
    return state


@pytest.mark.parametrize(
    ("drawn", "words", "value"),
    [
        (RED, ("ping", "red"), 1.0), (RED, ("pong", "green"), 0.0), (GREEN, ("ping", "ask", "pong", "green"), 0.75),
        (GREEN, ("ping", "ask", "pong", "ask", "ping", "red"), -0.5),
    ],
)
def test_payoffs_are_shared_and_asking_costs(drawn, words, value):
    made = game(rounds=2, cost=0.25)
    assert not any(played(made, drawn, *words[:-1]).returns)
    state = played(made, drawn, *words)
    assert (state.done, state.returns) == (True, (value, value))


@pytest.mark.parametrize(
    ("drawn", "words", "value"),
    [
        (RED, ("ping", "red"), 1.2),
        (RED, ("ping", "green"), 0.2),
        (RED, ("pong", "red"), 1.0),
        (BLUE, ("pang", "ask", "ping", "blue"), 1.1),  # the first signal alone is paid for
        (BLUE, ("ping", "ask", "pang", "blue"), 0.9),
    ],
)
def test_a_colours_own_signal_has_its_bonus(drawn, words, value):
    made = game(types=3, signals=3, bonus=0.2)
    assert played(made, drawn, *words).returns == pytest.approx((value, value))
    assert game(bonus=0.0).rules_key == game().rules_key != game(bonus=0.2).rules_key
    assert "ping' for red" in game(bonus=0.2, style="full").rules and "no meaning" in game(style="full").rules


def test_codes_that_are_best():
    # 1 + bonus; uniform play has 1/3 of both.
    made = game(types=3, signals=3, rounds=0, bonus=0.3)
    states = enumerate_info_states(made)
    report = nash_conv(made, states, UniformScorer())
    assert report.best_joint_value == pytest.approx(1.3) and report.values[0] == pytest.approx(1.3 / 3)
    with pytest.raises(ConfigError, match=r"option .bonus.: Input should be less than or equal to 1"):
        game(bonus=1.5)
    made = game()
    states = enumerate_info_states(made)
    def code(query):
        if query.seat == 0:
            return "ping" if "red" in query.key else "pong"
        return "red" if query.key.endswith("ping") else "green"
    report = nash_conv(made, states, scorer(states, code))
    assert (report.values, report.nash_conv, report.optimality_gap) == ((1.0, 1.0), 0.0, 0.0)
    babble = nash_conv(made, states, scorer(states, lambda query: "ping" if query.seat == 0 else "red"))
    assert (babble.values, babble.nash_conv, babble.optimality_gap) == ((0.5, 0.5), 0.0, 0.5)


def test_asking_views_flags_and_wording():
    asked = ("ping", "ask")
    assert played(game(rounds=2), RED, "ping").legal_actions() == ("red", "green", "ask")
    assert played(game(rounds=2), RED, *asked, "ping").legal_actions() == ("red", "green", "ask")
    assert played(game(rounds=2), RED, *asked, *asked, "ping").legal_actions() == ("red", "green")
    assert played(game(rounds=0), RED, "ping").legal_actions() == ("red", "green")
    assert played(game(types=3, signals=3), BLUE).legal_actions() == ("ping", "pong", "pang")
    for style in ("brief", "full"):
        made = game(style=style)
        for words in (("ping",), ("ping", "ask"), ("ping", "ask", "pong")):
            told = [[played(made, drawn, *words).observe(seat) for drawn in (RED, GREEN)] for seat in (0, 1)]
            assert told[1][0] == told[1][1]
            assert told[0][0].text != told[0][1].text and told[0][0].view != told[0][1].view and told[0][0].key != told[0][1].key
    made = game(rounds=2)
    one, two = (played(made, RED, first, "ask", "pong") for first in ("ping", "pong"))
    assert one.observe(1).view == two.observe(1).view == "pong asked 1"
    assert one.observe(1).key != two.observe(1).key
    assert played(made, GREEN, "ping", "ask").observe(0).view == "green asked 1"
    made = game(types=3, rounds=2)
    assert (made.cooperative, made.zero_sum, made.utility_sum) == (True, False, None)
    assert (made.min_utility, made.max_utility, made.max_turns) == (-0.2, 1.0, 6)
    assert made.illegal.forfeit_returns(made, played(made, RED), 1) == (-0.2, -0.2)
    pyspiel.random_sim_test(made.spiel, num_sims=10, serialize=True, verbose=False)
    assert game(types=3).spiel.new_initial_state().chance_outcomes() == [(n, pytest.approx(1 / 3)) for n in range(3)]
    made = game()
    assert made.vocabulary() == tuple(sorted([".", "illegal", "signalling", "sender", "receiver", "red", "green", "ping", "pong", "ask"]))
    state = played(made, GREEN, "ping", "ask", "pong")
    assert state.observe(0).text == "signalling sender green ping ask pong"
    assert state.observe(1).text == "signalling receiver ping ask pong"
    assert state.observe(1, 2).text == "pong"
    text = played(game(style="full", types=3, rounds=2, cost=0.25), BLUE, "ping", "ask").observe(0).text
    check_says(text, "red, green, blue", "at most 2 time(s), each at a cost of 0.25", "The colour is blue.", "'receiver' chose ask.", "Legal actions: ping")
    assert "ask" not in game(style="full", rounds=0).rules


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"rounds": 0}, 1 / 2),
        ({}, 2 / 3 * 1 / 2 + 1 / 3 * (1 / 2 - 0.1)),  # a guess with probability 2/3, else one signal more and a guess
        ({"types": 3}, 3 / 4 * 1 / 3 + 1 / 4 * (1 / 3 - 0.1)),
        ({"rounds": 2, "cost": 0.5}, 2 / 3 * 1 / 2 + 1 / 3 * (2 / 3 * (1 / 2 - 0.5) + 1 / 3 * (1 / 2 - 1))),
    ],
)
def test_uniform_play_is_worth_what_it_is_by_hand(options, value):
    states = enumerate_info_states(game(**options))
    policy, _ = query_policy(UniformScorer(), states)
    assert exact_values(states, policy).returns.tolist() == pytest.approx([value, value])


@pytest.mark.parametrize(
    ("options", "best"),
    [
        ({}, 1.0),
        ({"types": 3, "signals": 2, "rounds": 0}, 2 / 3),
        ({"types": 3, "signals": 2}, 1 - 2 / 3 * 0.1),  # one type has its own signal; after the other one, ask
    ],
)
def test_the_best_team_earns_what_it_does_by_hand(options, best):
    made = game(**options)
    report = nash_conv(made, enumerate_info_states(made), UniformScorer())
    assert report.best_joint_value == pytest.approx(best)
    assert report.optimality_gap == pytest.approx(best - report.values[0])


def scorer(info_states, choose):
    """Return the policy that plays ``choose(query)`` everywhere."""
    return TabularScorer({(query.seat, query.key): {choose(query): 1.0} for query in info_states.queries})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_games_are_shared_bounded_and_recall_everything(data):
    options = {"types": data.draw(st.integers(2, 3)), "signals": data.draw(st.integers(2, 3))}
    made = game(rounds=data.draw(st.integers(0, 4)), cost=data.draw(st.floats(0, 1)), **options)
    spiel, before, turns = made.spiel.new_initial_state(), ["0", "1"], -1
    while not spiel.is_terminal():
        spiel = spiel.child(data.draw(st.sampled_from(spiel.legal_actions())))
        turns += 1
        for seat in (0, 1):
            key = spiel.information_state_string(seat)
            assert key.startswith(before[seat].rstrip(":"))
            before[seat] = key
    assert turns % 2 == 0 and turns <= made.max_turns
    assert len(set(spiel.returns())) == 1
    assert made.min_utility <= spiel.returns()[0] <= made.max_utility

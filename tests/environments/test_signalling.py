"""Signalling: payoffs, hidden types, the best team and uniform play by hand, uninformative equilibria."""

import pytest

from sparring.measure.exploitability import evaluate_exploitability, query_policy
from sparring.measure.info_states import (
    TabularScorer,
    UniformScorer,
    enumerate_info_states,
    exact_values,
)
from tests.environments.worlds import apply_actions, make_game_factory, state_after_ids

RED, GREEN, BLUE = range(3)
game = make_game_factory("signalling")


def state_after_words(rules, colour, *words):
    """Return the state after the colour that nature draws and these actions."""
    state = state_after_ids(rules, colour)
    apply_actions(state, *words)
    return state


@pytest.mark.parametrize(
    ("colour", "words", "value"),
    [
        (RED, ("ping", "red"), 1.0),
        (RED, ("pong", "green"), 0.0),
        (GREEN, ("ping", "ask", "pong", "green"), 0.75),
        (GREEN, ("ping", "ask", "pong", "ask", "ping", "red"), -0.5),
    ],
)
def test_payoffs_are_shared_and_asking_costs(colour, words, value):
    rules = game(rounds=2, cost=0.25)
    assert not any(state_after_words(rules, colour, *words[:-1]).returns)
    state = state_after_words(rules, colour, *words)
    assert (state.done, state.returns) == (True, (value, value))


@pytest.mark.parametrize(
    ("colour", "words", "value"),
    [
        (RED, ("ping", "red"), 1.2),
        (RED, ("ping", "green"), 0.2),
        (RED, ("pong", "red"), 1.0),
        (BLUE, ("pang", "ask", "ping", "blue"), 1.1),  # only the first signal earns the bonus
        (BLUE, ("ping", "ask", "pang", "blue"), 0.9),
    ],
)
def test_the_signal_of_a_colour_earns_the_bonus(colour, words, value):
    rules = game(types=3, signals=3, bonus=0.2)
    assert state_after_words(rules, colour, *words).returns == pytest.approx((value, value))
    assert game(bonus=0.0).rules_key == game().rules_key != game(bonus=0.2).rules_key
    assert "ping' for red" in game(bonus=0.2, style="full").rules and "no meaning" in game(style="full").rules


def test_best_and_uninformative_codes_by_hand():
    # The best team gets 1 + bonus; uniform play gets 1/3 of that.
    rules = game(types=3, signals=3, rounds=0, bonus=0.3)
    states = enumerate_info_states(rules)
    report = evaluate_exploitability(rules, states, UniformScorer())
    assert report.best_joint_value == pytest.approx(1.3) and report.values[0] == pytest.approx(1.3 / 3)
    rules = game()
    states = enumerate_info_states(rules)

    def choose_by_code(query):
        if query.seat == 0:
            return "ping" if "red" in query.key else "pong"
        return "red" if query.key.endswith("ping") else "green"

    report = evaluate_exploitability(rules, states, make_scorer(states, choose_by_code))
    assert (report.values, report.nash_conv, report.optimality_gap) == ((1.0, 1.0), 0.0, 0.0)
    uninformative = evaluate_exploitability(
        rules, states, make_scorer(states, lambda query: "ping" if query.seat == 0 else "red")
    )
    assert (uninformative.values, uninformative.nash_conv, uninformative.optimality_gap) == ((0.5, 0.5), 0.0, 0.5)


def test_legal_actions_hidden_types_views_and_prompts():
    ask = ("ping", "ask")
    assert state_after_words(game(rounds=2), RED, "ping").legal_actions() == ("red", "green", "ask")
    assert state_after_words(game(rounds=2), RED, *ask, "ping").legal_actions() == ("red", "green", "ask")
    assert state_after_words(game(rounds=2), RED, *ask, *ask, "ping").legal_actions() == ("red", "green")
    assert state_after_words(game(rounds=0), RED, "ping").legal_actions() == ("red", "green")
    assert state_after_words(game(types=3, signals=3), BLUE).legal_actions() == ("ping", "pong", "pang")
    for style in ("brief", "full"):
        rules = game(style=style)
        for words in (("ping",), ("ping", "ask"), ("ping", "ask", "pong")):
            observations = [
                [state_after_words(rules, colour, *words).observe(seat) for colour in (RED, GREEN)] for seat in (0, 1)
            ]
            assert observations[1][0] == observations[1][1]
            assert (
                observations[0][0].text != observations[0][1].text
                and observations[0][0].view != observations[0][1].view
                and observations[0][0].key != observations[0][1].key
            )
    rules = game(rounds=2)
    state, other_state = (state_after_words(rules, RED, first, "ask", "pong") for first in ("ping", "pong"))
    assert state.observe(1).view == other_state.observe(1).view == "pong asked 1"
    assert state.observe(1).key != other_state.observe(1).key
    assert state_after_words(rules, GREEN, "ping", "ask").observe(0).view == "green asked 1"
    rules = game(types=3, rounds=2)
    assert (rules.min_utility, rules.max_utility, rules.max_turns) == (-0.2, 1.0, 6)
    assert rules.illegal.forfeit_returns(rules, state_after_words(rules, RED), 1) == (-0.2, -0.2)
    rules = game()
    state = state_after_words(rules, GREEN, "ping", "ask", "pong")
    assert state.observe(1).text == "signalling receiver ping ask pong"
    assert state.observe(1, 2).text == "pong"
    assert "ask" not in game(style="full", rounds=0).rules


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"rounds": 0}, 1 / 2),
        ({}, 2 / 3 * 1 / 2 + 1 / 3 * (1 / 2 - 0.1)),  # a guess with probability 2/3; else one more signal, then a guess
        ({"types": 3}, 3 / 4 * 1 / 3 + 1 / 4 * (1 / 3 - 0.1)),
        ({"rounds": 2, "cost": 0.5}, 2 / 3 * 1 / 2 + 1 / 3 * (2 / 3 * (1 / 2 - 0.5) + 1 / 3 * (1 / 2 - 1))),
    ],
)
def test_values_of_uniform_play_by_hand(options, value):
    states = enumerate_info_states(game(**options))
    policy, _ = query_policy(UniformScorer(), states)
    assert exact_values(states, policy).returns.tolist() == pytest.approx([value, value])


@pytest.mark.parametrize(
    ("options", "best"),
    [
        ({}, 1.0),
        ({"types": 3, "signals": 2, "rounds": 0}, 2 / 3),
        (
            {"types": 3, "signals": 2},
            1 - 2 / 3 * 0.1,
        ),  # one type has its own signal; the others share one, so the receiver asks
    ],
)
def test_values_of_the_best_team_by_hand(options, best):
    rules = game(**options)
    report = evaluate_exploitability(rules, enumerate_info_states(rules), UniformScorer())
    assert report.best_joint_value == pytest.approx(best)
    assert report.optimality_gap == pytest.approx(best - report.values[0])


def make_scorer(info_states, choose):
    return TabularScorer({(query.seat, query.key): {choose(query): 1.0} for query in info_states.queries})

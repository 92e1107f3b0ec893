"""Simple negotiation: trades, payoffs, legal actions and best play by hand; private values; prompts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.environments.worlds import apply_actions, check_contains, make_game_factory, state_after_ids

game = make_game_factory("simple_negotiation")


def state_after_words(rules, *words, draws=()):
    """Return the state after these values (``draws``, ids) and actions (words)."""
    state = state_after_ids(rules, *draws)
    apply_actions(state, *words)
    return state


@pytest.mark.parametrize(
    ("words", "gains"),
    [
        (("offer:3wood-2gold", "accept"), (15, 35)),  # seat 0 gives 3 x 5 for 2 x 15; seat 1 gets 3 x 15 for 2 x 5
        (("offer:2gold-3wood", "accept"), (-15, -35)),
        (("offer:1wood-1gold", "accept"), (10, 10)),
        (("offer:1wood-10gold", "accept"), (145, -35)),
        (("deny", "offer:3wood-2gold", "accept"), (-15, -35)),  # the offer of seat 1
        (("offer:3wood-2gold", "deny", "deny"), (0, 0)),
        (("offer:3wood-2gold", "offer:1gold-1wood", "accept"), (10, 10)),  # a new offer replaces the open one
        (("offer:1wood-1gold", "accept", "offer:1wood-1gold", "accept"), (20, 20)),
    ],
)
def test_payoffs_of_trades(words, gains):
    rules = game(turns=len(words), outcome="gain")
    assert state_after_words(rules, *words).returns == gains
    sign = float((gains[0] > gains[1]) - (gains[0] < gains[1]))
    state = state_after_words(game(turns=len(words)), *words)
    assert (state.done, state.returns) == (True, (sign, -sign))


def test_a_gain_is_paid_when_it_is_traded():
    spiel = state_after_words(game(turns=4, outcome="gain"), "offer:3wood-2gold", "accept").spiel
    assert (spiel.rewards(), spiel.returns()) == ([15.0, 35.0], [15.0, 35.0])
    next_spiel = state_after_words(game(turns=4, outcome="gain"), "offer:3wood-2gold", "accept", "deny").spiel
    assert (next_spiel.rewards(), next_spiel.returns()) == ([0.0, 0.0], [15.0, 35.0])


def test_legal_actions_by_hand():
    rules = game(largest=2)
    assert state_after_words(rules).legal_actions()[:2] == ("deny", "offer:1wood-1gold")
    assert state_after_words(rules, "offer:1wood-1gold").legal_actions()[:2] == ("accept", "deny")
    for words in (("offer:1wood-1gold", "deny"), ("offer:1wood-1gold", "accept")):
        assert "accept" not in state_after_words(rules, *words).legal_actions()
    rules = game()
    words = [word for word in state_after_words(rules).legal_actions() if word.startswith("offer:")]
    assert len(words) == 200 and {"offer:10wood-10gold", "offer:10gold-1wood"} <= set(words)
    state_after_trade = state_after_words(
        rules, "offer:9wood-8gold", "accept"
    )  # seat 0: 1 wood, 18 gold; seat 1: 19 wood, 2 gold
    legal = set(state_after_trade.legal_actions()) - {"deny"}
    assert legal == {f"offer:1wood-{n}gold" for n in (1, 2)} | {
        f"offer:{g}gold-{w}wood" for g in range(1, 11) for w in range(1, 11)
    }


def test_stakes_and_forfeit_returns_by_hand():
    words = ("offer:1wood-10gold", "accept")
    assert [game(outcome="gain").stake(state_after_words(game(outcome="gain"), *words), seat) for seat in (0, 1)] == [
        145.0,
        0.0,
    ]
    assert game().stake(state_after_words(game(), *words), 1) == 1.0
    rules = game(outcome="gain")
    state = state_after_words(rules, "offer:1wood-1gold", "accept")
    assert rules.illegal.forfeit_returns(rules, state, 0) == (-195.0, 10.0)
    assert game().illegal.forfeit_returns(game(), state_after_words(game()), 0) == (-1.0, 1.0)


def test_best_play_by_hand():
    # Only the larger gain wins, so each seat declines a trade that gains it less; the value is 0.
    rules = game(turns=4, largest=2)
    values = registry.bind("players", "minimax", {})().action_values(state_after_words(rules))
    assert max(values.values()) == 0.0
    assert values["deny"] == values["offer:1wood-2gold"] == 0.0  # seat 1 declines it
    assert values["offer:2wood-1gold"] == -1.0  # seat 1 accepts, gains 20 more, and then declines everything


def test_an_offer_that_gains_more_for_the_other_seat_is_accepted():
    state = state_after_words(game(turns=2, largest=2), "offer:2wood-1gold")
    assert registry.bind("players", "mcts", {"simulations": 200})().choose(state, 1, Stream.from_seed(0)) == "accept"


def test_exploitability_of_uniform_play_by_hand():
    short_rules = game(turns=2, largest=2)
    report = evaluate_exploitability(short_rules, enumerate_info_states(short_rules), UniformScorer())
    # Seat 1 gains by accepting 2 of the 9 actions, which give it 2 for 1; uniform play accepts 1 offer in 10.
    assert report.gains == pytest.approx((1 / 10, 2 / 9))


@pytest.mark.parametrize("seat", [0, 1])
def test_no_seat_knows_the_values_of_the_other(seat):
    for style in ("brief", "full"):
        rules, keys = game(values="drawn", style=style), {}
        for own_values in range(3):
            pairs = [(own_values, other) if seat == 0 else (other, own_values) for other in range(3)]
            observations = {
                state_after_words(rules, "offer:1wood-1gold", "accept", draws=pair).observe(seat) for pair in pairs
            }
            assert len(observations) == 1
            keys[own_values] = observations.pop().key
        assert len(set(keys.values())) == 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_trades_conserve_goods(data):
    options = {"turns": data.draw(st.integers(1, 12)), "largest": data.draw(st.integers(1, 10))}
    outcome, values = data.draw(st.sampled_from(["sign", "gain"])), data.draw(st.sampled_from(["fixed", "drawn"]))
    rules = game(outcome=outcome, values=values, **options)
    spiel = rules.spiel.new_initial_state()
    while not spiel.is_terminal():
        legal = spiel.legal_actions()
        index = legal[0] if data.draw(st.booleans()) else data.draw(st.sampled_from(legal))
        spiel = spiel.child(index)
        holdings = spiel.table.holdings
        assert [holdings[0][n] + holdings[1][n] for n in (0, 1)] == [20, 20]
        assert min(min(units) for units in holdings) >= 0


def test_prompts_and_rules():
    rules = game(turns=3, largest=1)
    words = "accept deny offer:1wood-1gold offer:1gold-1wood negotiation . illegal seat0 seat1 wood=5 wood=15 gold=5 gold=15"
    assert rules.vocabulary() == tuple(sorted(words.split(" ")))
    state = state_after_words(rules, "offer:1wood-1gold")
    assert state.observe(0).text == "negotiation seat0 wood=5 gold=15 offer:1wood-1gold"
    assert state.observe(1).text == "negotiation seat1 wood=15 gold=5 offer:1wood-1gold"
    state.apply("accept")
    assert state.observe(0, 1).text == "accept"
    rules = game(style="full")
    text = state_after_words(rules, "offer:9wood-8gold", "accept", "deny", "offer:3wood-2gold").observe(0).text
    check_contains(
        text,
        "You hold 1 wood and 18 gold, worth 275 points to you, a gain of +75. The other player holds 19 wood and 2 gold.",
        "This is turn 5 of 10. Open offer: you get 3 wood and give 2 gold.",
    )
    for largest_amount in range(1, 11):
        rules = game(largest=largest_amount, style="full")
        word = rules.rules.split("An offer such as ")[1].split()[0]
        assert word in state_after_words(rules).legal_actions()
        given_amount, asked_amount = min(largest_amount, 3), min(largest_amount, 2)
        assert (
            word == f"offer:{given_amount}wood-{asked_amount}gold"
            and f"you give {given_amount} wood and get {asked_amount} gold" in rules.rules
        )

"""Simple negotiation: trades and payoffs by hand, which actions are legal, what each seat knows, agreement with exact play."""

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.environments.worlds import check_says, maker

game = maker("simple_negotiation")


def played(made, *words, draws=()):
    """Return the state after these values, as ids, and actions, as words."""
    spiel = made.spiel.new_initial_state()
    for entry in draws:
        spiel.apply_action(entry)
    state = made.state_of(spiel)
    for word in words:
        state.apply(word)
    return state


@pytest.mark.parametrize(
    ("words", "gains"),
    [
        (("offer:3wood-2gold", "accept"), (15, 35)),  # seat 0 gives 3 x 5 for 2 x 15; seat 1 gets 3 x 15 for 2 x 5
        (("offer:2gold-3wood", "accept"), (-15, -35)),
        (("offer:1wood-1gold", "accept"), (10, 10)),
        (("offer:1wood-10gold", "accept"), (145, -35)),
        (("deny", "offer:3wood-2gold", "accept"), (-15, -35)),  # offered by seat 1
        (("offer:3wood-2gold", "deny", "deny"), (0, 0)),
        (("offer:3wood-2gold", "offer:1gold-1wood", "accept"), (10, 10)),  # a new offer takes the place of the open one
        (("offer:1wood-1gold", "accept", "offer:1wood-1gold", "accept"), (20, 20)),
    ],
)
def test_payoffs_of_trades(words, gains):
    made = game(turns=len(words), outcome="gain")
    assert played(made, *words).returns == gains
    sign = float((gains[0] > gains[1]) - (gains[0] < gains[1]))
    state = played(game(turns=len(words)), *words)
    assert (state.done, state.returns) == (True, (sign, -sign))


def test_trades_and_perfect_play():
    spiel = played(game(turns=4, outcome="gain"), "offer:3wood-2gold", "accept").spiel
    assert (spiel.rewards(), spiel.returns()) == ([15.0, 35.0], [15.0, 35.0])
    after = played(game(turns=4, outcome="gain"), "offer:3wood-2gold", "accept", "deny").spiel
    assert (after.rewards(), after.returns()) == ([0.0, 0.0], [15.0, 35.0])
    assert played(game(turns=4), "offer:3wood-2gold", "accept").returns == (0.0, 0.0)
    state = played(game(turns=3, largest=1))
    for turn in range(3):
        assert (state.done, state.seat) == (False, turn % 2)
        state.apply("deny")
    assert state.done
    made = game(largest=2)
    assert played(made).legal_actions()[:2] == ("deny", "offer:1wood-1gold")
    assert played(made, "offer:1wood-1gold").legal_actions()[:2] == ("accept", "deny")
    for words in (("offer:1wood-1gold", "deny"), ("offer:1wood-1gold", "accept")):
        assert "accept" not in played(made, *words).legal_actions()
    made = game()
    words = [word for word in played(made).legal_actions() if word.startswith("offer:")]
    assert len(words) == 200 and {"offer:10wood-10gold", "offer:10gold-1wood"} <= set(words)
    after = played(made, "offer:9wood-8gold", "accept")  # seat 0: 1 wood, 18 gold; seat 1: 19 wood, 2 gold
    legal = set(after.legal_actions()) - {"deny"}
    assert legal == {f"offer:1wood-{n}gold" for n in (1, 2)} | {f"offer:{g}gold-{w}wood" for g in range(1, 11) for w in range(1, 11)}
    spiel = game(values="drawn").spiel.new_initial_state()
    for _ in (0, 1):
        assert spiel.chance_outcomes() == [(entry, pytest.approx(1 / 3)) for entry in range(3)]
        spiel.apply_action(2)
    assert not spiel.is_chance_node()
    assert not game().spiel.new_initial_state().is_chance_node()
    words = ("offer:1wood-10gold", "accept")
    assert [game(outcome="gain").stake(played(game(outcome="gain"), *words), seat) for seat in (0, 1)] == [145.0, 0.0]
    assert game().stake(played(game(), *words), 1) == 1.0
    made = game(outcome="gain")
    state = played(made, "offer:1wood-1gold", "accept")
    assert made.illegal.forfeit_returns(made, state, 0) == (-195.0, 10.0)
    assert game().illegal.forfeit_returns(game(), played(game()), 0) == (-1.0, 1.0)
    # A trade that is better for one seat is worse for the other, which then declines it; so the value is 0.
    made = game(turns=4, largest=2)
    values = registry.bind("players", "minimax", {})().action_values(played(made))
    assert max(values.values()) == 0.0
    assert values["deny"] == values["offer:1wood-2gold"] == 0.0  # too greedy: will be declined
    assert values["offer:2wood-1gold"] == -1.0  # seat 1 accepts, 20 ahead, and then declines everything
    state = played(game(turns=2, largest=2), "offer:2wood-1gold")
    assert registry.bind("players", "mcts", {"simulations": 200})().choose(state, 1, Stream.from_seed(0)) == "accept"
    made = game(turns=2, largest=1)
    states = enumerate_info_states(made)
    # Trades of 1 for 1 gain or lose 10 for both seats alike: all games are drawn.
    assert nash_conv(made, states, UniformScorer()).nash_conv == pytest.approx(0.0)
    wide = game(turns=2, largest=2)
    report = nash_conv(wide, enumerate_info_states(wide), UniformScorer())
    # Of seat 0's 9 actions 2 should be accepted (they give 2 for 1); seat 1 accepts an offer of 1 for 2 once in 10 times.
    assert report.gains == pytest.approx((1 / 10, 2 / 9))


@pytest.mark.parametrize("seat", [0, 1])
def test_no_seat_knows_the_values_of_the_other(seat):
    for style in ("brief", "full"):
        made, told = game(values="drawn", style=style), {}
        for mine in range(3):
            draws = [(mine, other) if seat == 0 else (other, mine) for other in range(3)]
            seen = {played(made, "offer:1wood-1gold", "accept", draws=pair).observe(seat) for pair in draws}
            assert len(seen) == 1
            told[mine] = seen.pop().key
        assert len(set(told.values())) == 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_games_keep_goods_sums_and_bounds_and_recall_everything(data):
    options = {"turns": data.draw(st.integers(1, 12)), "largest": data.draw(st.integers(1, 10))}
    outcome, values = data.draw(st.sampled_from(["sign", "gain"])), data.draw(st.sampled_from(["fixed", "drawn"]))
    made = game(outcome=outcome, values=values, **options)
    spiel, before = made.spiel.new_initial_state(), ["0", "1"]
    while not spiel.is_terminal():
        legal = spiel.legal_actions()
        index = legal[0] if data.draw(st.booleans()) else data.draw(st.sampled_from(legal))
        spiel = spiel.child(index)
        for seat in (0, 1):
            key = spiel.information_state_string(seat)
            assert key.startswith(before[seat].rstrip(":"))
            before[seat] = key
        holdings = spiel.table.holdings
        assert [holdings[0][n] + holdings[1][n] for n in (0, 1)] == [20, 20]
        assert min(min(units) for units in holdings) >= 0
        assert all(made.min_utility <= value <= made.max_utility for value in spiel.returns())
        assert outcome == "gain" or sum(spiel.returns()) == 0.0


@pytest.mark.parametrize("outcome", ["sign", "gain"])
@pytest.mark.parametrize("values", ["fixed", "drawn"])
def test_openspiels_own_checks_of_a_game_pass(outcome, values):
    made = game(outcome=outcome, values=values, largest=4)
    assert (made.zero_sum, made.utility_sum) == ((True, 0.0) if outcome == "sign" else (False, None))
    pyspiel.random_sim_test(made.spiel, num_sims=10, serialize=True, verbose=False)


def test_wording():
    made = game(turns=3, largest=1)
    words = "accept deny offer:1wood-1gold offer:1gold-1wood negotiation . illegal seat0 seat1 wood=5 wood=15 gold=5 gold=15"
    assert made.vocabulary() == tuple(sorted(words.split(" ")))
    state = played(made, "offer:1wood-1gold")
    assert state.observe(0).text == "negotiation seat0 wood=5 gold=15 offer:1wood-1gold"
    assert state.observe(1).text == "negotiation seat1 wood=15 gold=5 offer:1wood-1gold"
    state.apply("accept")
    assert state.observe(0, 1).text == "accept"
    assert {"wood=10", "gold=10"} <= set(game(values="drawn").vocabulary())
    made = game(style="full")
    text = played(made, "offer:9wood-8gold", "accept", "deny", "offer:3wood-2gold").observe(0).text
    check_says(
        text, "10 turns in all", "gained more in value wins", "To you, one wood is worth 5 and one gold 15 points.",
        "You chose offer:9wood-8gold. The player 'seat1' chose accept. You chose deny. The player 'seat1' chose offer:3wood-2gold.",
        "You hold 1 wood and 18 gold, worth 275 points to you, a gain of +75. The other player holds 19 wood and 2 gold.",
        "This is turn 5 of 10. Open offer: you get 3 wood and give 2 gold.",
    )
    for largest in range(1, 11):
        made = game(largest=largest, style="full")
        word = made.rules.split("An offer such as ")[1].split()[0]
        assert word in played(made).legal_actions()
        give, ask = min(largest, 3), min(largest, 2)
        assert word == f"offer:{give}wood-{ask}gold" and f"you give {give} wood and get {ask} gold" in made.rules

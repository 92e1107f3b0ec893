"""Kuhn poker of several rounds: payoffs by hand, deals, what each seat knows, outcomes, agreement with the single round."""

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python import policy as policies
from open_spiel.python.algorithms import expected_game_score

from sparring.config.plugins import registry
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.cases import every_case
from tests.environments.worlds import check_says, dealt, maker

J, Q, K = range(3)
CHECK, BET, CALL, FOLD = range(4)
game = maker("kuhn_rounds")


@every_case(
    ("actions", "chips"),  # seat 0 holds the higher card and starts
    [((CHECK, CHECK), 1), ((CHECK, BET, CALL), 2), ((CHECK, BET, FOLD), -1), ((BET, CALL), 2), ((BET, FOLD), 1)],
)
@every_case(("cards", "higher"), [((K, Q), True), ((Q, J), True), ((K, J), True), ((J, K), False), ((Q, K), False)])
def test_payoffs_of_every_way_to_play_a_round(actions, chips, cards, higher):
    state = dealt(game(rounds=1), *cards, *actions)
    expected = chips if higher or FOLD in actions else -chips
    assert (state.done, state.returns) == (True, (float(expected), float(-expected)))


def test_what_rounds_pay_and_are_worth():
    made = game(rounds=3)
    state = dealt(made, K, Q, BET, CALL)  # +2 for seat 0
    assert (state.done, state.returns) == (False, (2.0, -2.0))
    state = dealt(made, K, Q, BET, CALL, K, J)
    assert state.seat == 1 and state.legal_actions() == ("check", "bet")
    state = dealt(made, K, Q, BET, CALL, K, J, BET, FOLD)  # seat 1 bets, seat 0 folds: -1
    assert state.returns == (1.0, -1.0)
    state = dealt(made, K, Q, BET, CALL, K, J, BET, FOLD, J, Q)
    assert state.seat == 0
    state = dealt(made, K, Q, BET, CALL, K, J, BET, FOLD, J, Q, CHECK, CHECK)
    assert (state.done, state.returns) == (True, (0.0, 0.0))
    one = (K, Q, BET, CALL, J, K, CHECK, CHECK)  # +2, then -1 for seat 0
    assert dealt(game(rounds=2), *one).returns == (1.0, -1.0)
    assert dealt(game(rounds=2, outcome="sign"), *one).returns == (1.0, -1.0)
    assert dealt(game(rounds=2, outcome="last_round"), *one).returns == (-1.0, 1.0)
    level = (K, Q, CHECK, CHECK, J, K, CHECK, CHECK)
    assert dealt(game(rounds=2, outcome="sign"), *level).returns == (0.0, 0.0)
    assert dealt(game(rounds=2, outcome="last_round"), *level).returns == (-1.0, 1.0)
    for outcome in ("sign", "last_round"):
        assert dealt(game(rounds=2, outcome=outcome), *one[:-1]).returns == (0.0, 0.0)
    spiel = game(rounds=2).spiel.new_initial_state()
    paid = []
    for index in (K, Q, BET, CALL, J, K, CHECK, CHECK):
        spiel.apply_action(index)
        paid.append(None if spiel.is_chance_node() else spiel.rewards()[0])
    assert paid == [None, 0.0, 0.0, None, None, 2.0, 0.0, -1.0]  # at the first decision after the round, as OpenSpiel asks
    state = dealt(game(rounds=2), K, Q, BET, CALL, J, K, BET)
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [1.0, 2.0]
    assert dealt(game(outcome="sign"), K, Q, BET).game.stake(state, 1) == 1.0
    made = game(rounds=1)
    solved = registry.bind("players", "cfr", {"iterations": 400, "variant": "cfr_plus"})().policy(made)
    value = expected_game_score.policy_value(made.spiel.new_initial_state(), [solved, solved])
    assert value[0] == pytest.approx(-1 / 18, abs=0.001)
    made, spiel = game(rounds=1).spiel, pyspiel.load_game("kuhn_poker")
    values = [expected_game_score.policy_value(g.new_initial_state(), [policies.UniformRandomPolicy(g)] * 2)[0] for g in (made, spiel)]
    assert values[0] == pytest.approx(values[1])


def test_deals_and_what_is_known():
    spiel = game(rounds=2).spiel.new_initial_state()
    for _ in range(2):
        assert spiel.chance_outcomes() == [(card, pytest.approx(1 / 3)) for card in (J, Q, K)]
        spiel.apply_action(Q)
        assert spiel.chance_outcomes() == [(card, pytest.approx(1 / 2)) for card in (J, K)]
        for index in (K, BET, FOLD):
            spiel.apply_action(index)
    assert spiel.is_terminal()
    made = game(rounds=2)
    def keys(seat, *indices):
        return {dealt(made, *indices[:seat], card, *indices[seat:]).observe(1 - seat).key for card in (J, K)}
    for seat in (0, 1):
        assert len(keys(seat, Q)) == len(keys(seat, Q, CHECK)) == len(keys(seat, Q, CHECK, BET)) == 1
        assert len(keys(seat, Q, BET, FOLD)) == 1
        assert len(keys(seat, Q, BET, CALL)) == len(keys(seat, Q, CHECK, CHECK)) == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_games_are_zero_sum_with_bounded_pay_and_perfect_recall(data):
    made = game(rounds=data.draw(st.integers(1, 4)), outcome=data.draw(st.sampled_from(["chips", "sign", "last_round"])))
    spiel, before = made.spiel.new_initial_state(), ["0:", "1:"]
    while not spiel.is_terminal():
        spiel = spiel.child(data.draw(st.sampled_from(spiel.legal_actions())))
        for seat in (0, 1):
            key = spiel.information_state_string(seat)
            assert key.startswith(before[seat])  # nothing once known is forgotten
            before[seat] = key
        assert sum(spiel.returns()) == 0.0
        assert made.min_utility <= min(spiel.returns())
    assert spiel.move_number() - 2 * made.rounds <= made.max_turns


@pytest.mark.parametrize("outcome", ["chips", "sign", "last_round"])
def test_openspiels_own_checks_of_a_game_pass(outcome):
    pyspiel.random_sim_test(game(rounds=3, outcome=outcome).spiel, num_sims=10, serialize=True, verbose=False)


@pytest.mark.parametrize("rounds", [1, 2])
def test_uniform_play_is_as_exploitable_as_in_the_single_round(rounds):
    made = game(rounds=rounds)
    states = enumerate_info_states(made)
    assert nash_conv(made, states, UniformScorer()).nash_conv == pytest.approx(rounds * 11 / 12)


def test_wording():
    made = game(rounds=2)
    assert made.vocabulary() == tuple(sorted([".", "J", "K", "Q", "bet", "call", "check", "deal", "fold", "illegal", "kuhnrounds", "seat0", "seat1", "shows"]))
    line = (K, Q, CHECK, BET, CALL, J, K)
    assert dealt(made, *line[:2]).observe(0).text == "kuhnrounds seat0 deal K"
    assert dealt(made, *line[:3]).observe(1).text == "kuhnrounds seat1 deal Q check"
    assert dealt(made, *line[:4]).observe(0, 1).text == "bet"
    assert dealt(made, *line).observe(1, 2).text == "call shows K deal K"
    assert dealt(made, *line).observe(0, 3).text == "shows Q deal J"
    assert dealt(made, *line).observe(0).text == "kuhnrounds seat0 deal K check bet call shows Q deal J"
    assert dealt(made, K, Q, BET, FOLD, J, Q).observe(0, 1).text == "fold deal J"
    made = game(rounds=2, style="full", outcome="sign")
    text = dealt(made, K, Q, CHECK, BET, CALL, J, K).observe(1).text
    check_says(
        text, "2 round(s) of Kuhn poker", "wins the game; with equal chips it is a draw",
        "Round 1 of 2: your card is the Queen and 'seat0' acts first. The player 'seat0' chose check. You chose bet.",
        "The other player shows the King. You lose 2 chip(s) in this round. Round 2 of 2: your card is the King and you act first.",
        "so far: -2. Chips in the pot: 1 from you, 1 from the other player.", "Legal actions: check, bet.",
    )
    assert "Jack" not in text.split("You play")[1]

"""Kuhn poker of several rounds: payoffs by hand, hidden cards, outcomes, agreement with the single round."""

import pytest

from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.cases import every_case
from tests.environments.worlds import check_contains, make_game_factory, state_after_ids

J, Q, K = range(3)
CHECK, BET, CALL, FOLD = range(4)
game = make_game_factory("kuhn_rounds")


@every_case(
    ("actions", "chips"),  # seat 0 holds the higher card and starts
    [((CHECK, CHECK), 1), ((CHECK, BET, CALL), 2), ((CHECK, BET, FOLD), -1), ((BET, CALL), 2), ((BET, FOLD), 1)],
)
@every_case(("cards", "is_higher"), [((K, Q), True), ((Q, J), True), ((K, J), True), ((J, K), False), ((Q, K), False)])
def test_payoffs_of_every_way_to_play_a_round(actions, chips, cards, is_higher):
    state = state_after_ids(game(rounds=1), *cards, *actions)
    expected = chips if is_higher or FOLD in actions else -chips
    assert (state.done, state.returns) == (True, (float(expected), float(-expected)))


def test_returns_rewards_and_stakes_by_hand():
    rules = game(rounds=3)
    state = state_after_ids(rules, K, Q, BET, CALL)  # +2 for seat 0
    assert (state.done, state.returns) == (False, (2.0, -2.0))
    state = state_after_ids(rules, K, Q, BET, CALL, K, J)
    assert state.seat == 1 and state.legal_actions() == ("check", "bet")
    state = state_after_ids(rules, K, Q, BET, CALL, K, J, BET, FOLD)  # seat 1 bets, seat 0 folds: -1
    assert state.returns == (1.0, -1.0)
    state = state_after_ids(rules, K, Q, BET, CALL, K, J, BET, FOLD, J, Q)
    assert state.seat == 0
    state = state_after_ids(rules, K, Q, BET, CALL, K, J, BET, FOLD, J, Q, CHECK, CHECK)
    assert (state.done, state.returns) == (True, (0.0, 0.0))
    history = (K, Q, BET, CALL, J, K, CHECK, CHECK)  # +2, then -1 for seat 0
    assert state_after_ids(game(rounds=2), *history).returns == (1.0, -1.0)
    assert state_after_ids(game(rounds=2, outcome="sign"), *history).returns == (1.0, -1.0)
    assert state_after_ids(game(rounds=2, outcome="last_round"), *history).returns == (-1.0, 1.0)
    tied_history = (K, Q, CHECK, CHECK, J, K, CHECK, CHECK)
    assert state_after_ids(game(rounds=2, outcome="sign"), *tied_history).returns == (0.0, 0.0)
    assert state_after_ids(game(rounds=2, outcome="last_round"), *tied_history).returns == (-1.0, 1.0)
    for outcome in ("sign", "last_round"):
        assert state_after_ids(game(rounds=2, outcome=outcome), *history[:-1]).returns == (0.0, 0.0)
    spiel = game(rounds=2).spiel.new_initial_state()
    rewards = []
    for index in (K, Q, BET, CALL, J, K, CHECK, CHECK):
        spiel.apply_action(index)
        rewards.append(None if spiel.is_chance_node() else spiel.rewards()[0])
    assert rewards == [
        None,
        0.0,
        0.0,
        None,
        None,
        2.0,
        0.0,
        -1.0,
    ]  # OpenSpiel pays a round at the next decision
    state = state_after_ids(game(rounds=2), K, Q, BET, CALL, J, K, BET)
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [1.0, 2.0]
    assert state_after_ids(game(outcome="sign"), K, Q, BET).game.stake(state, 1) == 1.0


def test_cards_are_revealed_only_at_a_showdown():
    rules = game(rounds=2)

    def keys_by_card(seat, *indices):
        return {state_after_ids(rules, *indices[:seat], card, *indices[seat:]).observe(1 - seat).key for card in (J, K)}

    for seat in (0, 1):
        assert (
            len(keys_by_card(seat, Q))
            == len(keys_by_card(seat, Q, CHECK))
            == len(keys_by_card(seat, Q, CHECK, BET))
            == 1
        )
        assert len(keys_by_card(seat, Q, BET, FOLD)) == 1
        assert len(keys_by_card(seat, Q, BET, CALL)) == len(keys_by_card(seat, Q, CHECK, CHECK)) == 2


@pytest.mark.parametrize("rounds", [1, 2])
def test_exploitability_of_uniform_play_adds_up_over_rounds(rounds):
    rules = game(rounds=rounds)
    info_states = enumerate_info_states(rules)
    assert evaluate_exploitability(rules, info_states, UniformScorer()).nash_conv == pytest.approx(rounds * 11 / 12)


def test_prompts():
    rules = game(rounds=2)
    history = (K, Q, CHECK, BET, CALL, J, K)
    assert state_after_ids(rules, *history[:2]).observe(0).text == "kuhnrounds seat0 deal K"
    assert state_after_ids(rules, *history[:3]).observe(1).text == "kuhnrounds seat1 deal Q check"
    assert state_after_ids(rules, *history[:4]).observe(0, 1).text == "bet"
    assert state_after_ids(rules, *history).observe(1, 2).text == "call shows K deal K"
    assert state_after_ids(rules, *history).observe(0, 3).text == "shows Q deal J"
    assert state_after_ids(rules, *history).observe(0).text == "kuhnrounds seat0 deal K check bet call shows Q deal J"
    assert state_after_ids(rules, K, Q, BET, FOLD, J, Q).observe(0, 1).text == "fold deal J"
    rules = game(rounds=2, style="full", outcome="sign")
    text = state_after_ids(rules, K, Q, CHECK, BET, CALL, J, K).observe(1).text
    check_contains(
        text,
        "Round 1 of 2: your card is the Queen and 'seat0' acts first. The player 'seat0' chose check. You chose bet.",
        "The other player shows the King. You lose 2 chip(s) in this round. Round 2 of 2: your card is the King and you act first.",
        "so far: -2. Chips in the pot: 1 from you, 1 from the other player.",
        "Legal actions: check, bet.",
    )
    assert "Jack" not in text.split("You play")[1]

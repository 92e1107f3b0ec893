"""Kuhn poker: wording, deals, returns."""

import itertools
from collections import Counter

import pytest
from scipy import stats

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.environments.worlds import actions, check_says, dealt


def test_wording_deals_and_stakes():
    state = dealt(make_game("kuhn_poker"), 2, 0)
    assert state.observe(0).text == "kuhn first K"
    assert state.legal_actions() == ("pass", "bet")
    state.apply("pass")
    assert state.observe(1).text == "kuhn second J pass"
    state.apply("bet")
    assert state.observe(0, 1).text == "bet"
    assert state.observe(0).text == "kuhn first K pass bet"
    state.apply("bet")
    assert (state.done, state.seat, list(state.returns)) == (True, -1, [2.0, -2.0])
    state = dealt(make_game("kuhn_poker", options={"players": 3}), 0, 3, 1)
    actions(state, "pass", "bet")
    assert state.observe(2).text == "kuhn third Q first pass second bet"
    state.apply("pass")
    assert state.observe(0, 1).text == "second bet third pass"
    state = dealt(make_game("kuhn_poker", options={"style": "full"}), 2, 0)
    state.apply("bet")
    text = state.observe(1).text
    check_says(text, "Kuhn poker with 2 players", "'second'", "Your card is the Jack.", "'first' chose bet", "Legal actions: pass, bet.")
    assert "King" not in text.split("You play")[1]
    game, root = make_game("kuhn_poker"), Stream.from_seed(7)
    count = Counter(tuple(event.action for event in game.reset(root.child(number)).trail) for number in range(6000))
    assert set(count) == set(itertools.permutations(range(3), 2))
    assert stats.chisquare(list(count.values())).pvalue > 0.01
    state = dealt(make_game("kuhn_poker"), 2, 0)
    state.apply("bet")
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [2.0, 1.0]
    state = dealt(make_game("kuhn_poker"), 2, 0)
    with pytest.raises(GameError, match=r"'raise' is not legal at ply 0; legal actions: pass, bet"):
        state.apply("raise")

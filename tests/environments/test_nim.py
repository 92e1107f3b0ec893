"""Nim: pile names, normal and misere rules, prompts, OpenSpiel's options."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.environments.catalogue import make_game
from tests.environments.worlds import check_contains, state_after

LETTERS = "abcdefgh"


def game(sizes="1;3;5;7", **options):
    return make_game("nim", options={"pile_sizes": sizes, **options})


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), misere=st.booleans(), data=st.data())
def test_episodes_match_an_independent_simulation(sizes, misere, data):
    rules = game(";".join(map(str, sizes)), is_misere=misere)
    state, piles, seat = state_after(rules), list(sizes), 0
    while any(piles):
        assert state.seat == seat and not state.done and rules.piles(state) == tuple(piles)
        possible = {f"{LETTERS[pile]}{take}" for pile, size in enumerate(piles) for take in range(1, size + 1)}
        assert set(state.legal_actions()) == possible <= set(rules.vocabulary())
        word = data.draw(st.sampled_from(state.legal_actions()))
        piles[LETTERS.index(word[0])] -= int(word[1:])
        state.apply(word)
        seat = 1 - seat
    last_player = 1 - seat
    assert state.done and rules.piles(state) == tuple(piles)
    assert state.returns[last_player] == -state.returns[1 - last_player] == (-1.0 if misere else 1.0)
    assert state.plies <= rules.max_turns == sum(sizes)


def test_prompts_parsed_replies_and_options():
    rules = game("1;3")
    assert set(rules.vocabulary()) == {"misere", ".", "illegal", "first", "second", "1", "3", "a1", "b1", "b2", "b3"}
    state = state_after(rules, "b2")
    assert (state.observe(1).text, state.observe(0, 1).text) == ("misere second 1 3 b2", ".")
    assert state_after(rules, "b2", "a1").observe(0, 1).text == "a1"
    assert state_after(game("3;1", is_misere=False)).observe(1).text == "nim second 3 1"
    rules = game("1;3", style="full")
    text = state_after(rules, "b2").observe(1).text
    check_contains(
        text,
        "takes the last stone of all loses.",
        "at the start: a has 1, b has 3.",
        "now: a has 1, b has 1.",
        "'first' chose b2.",
    )
    assert (
        "takes the last stone of all wins." in state_after(game("1;3", style="full", is_misere=False)).observe(0).text
    )
    assert state_after(rules).parse("I take two: action b2.") == "b2"
    state = state_after(game("1;3"), "b2")
    for word in ("a2", "b2"):
        assert state.parse(word) == word
        with pytest.raises(GameError, match="not legal"):
            state.apply(word)
    assert state.parse("c1") is state.parse("b0") is state.parse("a4") is None
    assert game(" 2; 3 ").sizes == (2, 3)
    assert make_game("nim").sizes == (1, 3, 5, 7) and make_game("nim").is_misere


@pytest.mark.parametrize("sizes", ["", ";", "1;x", "1;;2", "-1;2", "0;1", "21", "1,2", "1;1;1;1;1;1;1;1;1", "²", "1.5"])
def test_invalid_pile_sizes_are_refused(sizes):
    with pytest.raises(ConfigError, match="pile_sizes"):
        game(sizes)

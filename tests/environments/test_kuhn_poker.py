"""Kuhn poker: prompts, returns and stakes."""

from sparring.environments.catalogue import make_game
from tests.environments.worlds import apply_actions, state_after_ids


def test_prompts_and_returns_of_two_seats():
    state = state_after_ids(make_game("kuhn_poker"), 2, 0)
    state.apply("pass")
    state.apply("bet")
    assert state.observe(0, 1).text == "bet"
    state.apply("bet")
    assert (state.done, state.seat, list(state.returns)) == (True, -1, [2.0, -2.0])


def test_prompts_of_three_seats():
    state = state_after_ids(make_game("kuhn_poker", options={"players": 3}), 0, 3, 1)
    apply_actions(state, "pass", "bet")
    assert state.observe(2).text == "kuhn third Q first pass second bet"
    state.apply("pass")
    assert state.observe(0, 1).text == "second bet third pass"


def test_stakes():
    state = state_after_ids(make_game("kuhn_poker"), 2, 0)
    state.apply("bet")
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [2.0, 1.0]

"""Leduc poker: the public card, the raises, the stakes."""

from sparring.environments.catalogue import make_game
from tests.environments.worlds import apply_actions, state_after_ids


def test_prompts_after_the_public_card():
    state = state_after_ids(make_game("leduc_poker"), 0, 2)
    apply_actions(state, "call", "call")
    assert (state.seat, state.done) == (-1, False)
    state.apply_index(2)
    assert state.observe(0, 1).text == "call K"
    state.apply("raise")
    assert state.observe(1).text == "leduc second K call call K raise"


def test_raises_are_limited_and_raise_the_stakes():
    state = state_after_ids(make_game("leduc_poker"), 0, 2)
    apply_actions(state, "raise", "raise")
    assert "raise" not in state.legal_actions()
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [3.0, 5.0]
    state.apply("call")
    state.apply_index(1)
    state.apply("raise")
    assert state.game.stake(state, 0) == 9.0


def test_a_pair_with_the_public_card_wins():
    state = state_after_ids(make_game("leduc_poker"), 0, 2)
    apply_actions(state, "call", "call")
    state.apply_index(0)
    apply_actions(state, "raise", "call")
    assert list(state.returns) == [5.0, -5.0]

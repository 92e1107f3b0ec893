"""Leduc poker: the public card, the raises, the stakes."""

from collections import Counter

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.environments.worlds import actions, dealt


def test_what_is_told_raised_and_dealt():
    state = dealt(make_game("leduc_poker"), 0, 2)
    assert state.observe(0).text == "leduc first J"
    state.apply("call")
    assert state.observe(1).text == "leduc second K call"
    state.apply("call")
    assert (state.seat, state.done) == (-1, False)
    state.apply_index(2)
    assert state.observe(0, 1).text == "call K"
    assert state.observe(0).text == "leduc first J call call K"
    state.apply("raise")
    assert state.observe(1, 2).text == "K raise"
    assert state.observe(1).text == "leduc second K call call K raise"
    state = dealt(make_game("leduc_poker", options={"style": "full"}), 0, 2)
    actions(state, "call", "call")
    state.apply_index(1)
    text = state.observe(0, 1).text
    assert "The public card is a Queen." in text
    assert "King" not in text
    assert "Your private card is a Jack." in state.observe(0).text
    state = dealt(make_game("leduc_poker"), 0, 2)
    actions(state, "raise", "raise")
    assert "raise" not in state.legal_actions()
    assert [state.game.stake(state, seat) for seat in (0, 1)] == [3.0, 5.0]
    state.apply("call")
    state.apply_index(1)
    state.apply("raise")
    assert state.game.stake(state, 0) == 9.0
    state = dealt(make_game("leduc_poker"), 0, 2)
    actions(state, "call", "call")
    state.apply_index(0)
    actions(state, "raise", "call")
    assert list(state.returns) == [5.0, -5.0]
    game, root = make_game("leduc_poker"), Stream.from_seed(1)
    deals = Counter(event.action for number in range(4000) for event in game.reset(root.child(number)).trail[1:2])
    pairs = sum(len({event.action for event in game.reset(root.child(number)).trail}) == 1 for number in range(4000))
    assert abs(pairs / 4000 - 1 / 5) < 0.02
    assert set(deals) == {0, 1, 2}

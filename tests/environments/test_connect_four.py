"""Connect four: columns, gravity, full columns."""

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def played(style, *moves):
    state = make_game("connect_four", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


def test_the_rules_are_openspiels():
    state = played("full", "4", "4", "3", "7")
    board = state.observe(0, 3).text.split("The board:\n")[1].split("\n1 2 3 4 5 6 7")[0]
    assert board.replace(" ", "") == str(state.spiel).strip()
    assert board.splitlines()[-1] == ". . x x . . o"
    assert played("brief", *"444444").legal_actions() == tuple("123567")
    state = played("brief", *"1122334")
    assert list(state.returns) == [1.0, -1.0]
    assert state.observe(1, 6).text == "4"

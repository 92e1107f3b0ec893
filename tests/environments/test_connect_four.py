"""Connect four: columns, gravity, full columns."""

from sparring.environments.catalogue import make_game
from tests.environments.worlds import state_after


def test_board_and_results_match_openspiel():
    state = state_after(make_game("connect_four", options={"style": "full"}), "4", "4", "3", "7")
    board = state.observe(0, 3).text.split("The board:\n")[1].split("\n1 2 3 4 5 6 7")[0]
    assert board.replace(" ", "") == str(state.spiel).strip()
    assert board.splitlines()[-1] == ". . x x . . o"
    assert state_after(make_game("connect_four"), *"444444").legal_actions() == tuple("123567")
    state = state_after(make_game("connect_four"), *"1122334")
    assert list(state.returns) == [1.0, -1.0]
    assert state.observe(1, 6).text == "4"

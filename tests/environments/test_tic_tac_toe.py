"""Tic-tac-toe: wording, board, returns, and games that begin in the middle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError
from sparring.environments.tic_tac_toe import CELLS
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.environments.worlds import make_game_factory, state_after

BOARD = """The board:
  a b c
1 X O .
2 . X .
3 . . ."""
game = make_game_factory("tic_tac_toe")


def played(style, *moves, start=""):
    return state_after(game(style=style, start=start), *moves)


def test_wording_and_rules():
    text = played("full", "a1", "b1", "b2").observe(1, 2).text
    assert text.startswith("The player 'X' chose b2.\n\n" + BOARD)
    assert "Legal actions: c1, a2, c2, a3, b3, c3." in text
    assert "three" not in text.lower()
    state = played("brief", "a1", "b1", "b2", "c1", "c3")
    assert state.done
    assert list(state.returns) == [1.0, -1.0]
    assert state.legal_actions() == ()
    with pytest.raises(GameError, match="'b2' is not legal at ply 1; legal actions: a1, b1"):
        played("brief", "b2").apply("b2")


def test_starts_by_hand():
    state = played("brief", start="a1 b2 c3")
    assert (state.seat, state.plies, state.trail) == (1, 0, ())
    assert state.observe(1).text == "tictactoe O a1 b2 c3"
    state.apply("b1")
    assert state.observe(0).text == "tictactoe X a1 b2 c3 b1"
    assert state.observe(1, 1).text == "."
    text = played("full", "b2", start="a1 b1").observe(1).text
    assert "The game begins after these moves, 'X' first: a1, b1." in text
    assert BOARD in text and "You play as 'O'." in text and "Legal actions: c1, a2, c2, a3, b3, c3." in text
    assert BOARD in played("full", start="a1 b1 b2").observe(1, 1).text
    assert "begins" not in played("full").observe(0).text
    # X O X / O O X / X . . with O to move: b3 wins, c3 leads to a draw.
    rules = game(start="a1 b1 c1 a2 c2 b2 a3")
    states = enumerate_info_states(rules)
    report = nash_conv(rules, states, UniformScorer())
    assert len(states) == 2
    assert (report.values, report.gains) == ((-0.5, 0.5), (0.0, 0.5))
    rules = game(start="a1 b2 c3")
    assert (rules.zero_sum, rules.utility_sum) == (True, 0.0)
    values = registry.bind("players", "minimax", {})().action_values(played("brief", start="a1 b2 c3"))
    assert {cell: value for cell, value in values.items() if value} == {
        "c1": -1.0,
        "a3": -1.0,
    }  # a corner loses to a fork


@settings(max_examples=50, deadline=None)
@given(st.permutations(CELLS), st.integers(1, 8))
def test_a_game_from_a_start_goes_on_as_the_whole_game_does(moves, number):
    whole = played("full")
    for cell in moves[:number]:
        whole.apply(cell)
        if whole.done:
            return
    part = played("full", start=" ".join(moves[:number]))
    assert part.game.max_turns == 9 - number
    for cell in [*moves[number:], None]:
        assert (part.seat, part.done, part.returns, part.legal_actions()) == (
            whole.seat,
            whole.done,
            whole.returns,
            whole.legal_actions(),
        )
        assert part.plies == whole.plies - number
        for seat in (0, 1):
            assert part.game.position(part, seat) == whole.game.position(whole, seat)
            assert (part.observe(seat).key, part.observe(seat).view) == (
                whole.observe(seat).key,
                whole.observe(seat).view,
            )
        if whole.done:
            break
        whole.apply(cell)
        part.apply(cell)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("a1 b2 a1", "move 3, 'a1', is not possible; write one of: b1, c1"),
        ("a1 e5", "move 2, 'e5', is not possible"),
        ("a1,b2", "move 1, 'a1,b2', is not possible"),
        ("a1 b1 a2 b2 a3", "the game is over after 'a3'; write fewer moves, such as 'a1 b1 a2 b2'"),
    ],
)
def test_a_start_that_cannot_be_is_refused(start, message):
    with pytest.raises(ConfigError, match=message):
        game(start=start)

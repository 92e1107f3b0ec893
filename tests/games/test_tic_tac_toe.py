"""Tic-tac-toe: wording, board, returns."""

import pytest

from sparring.errors import GameError
from sparring.games.catalogue import make_game
from sparring.rng import Stream

BOARD = """The board:
  a b c
1 X O .
2 . X .
3 . . ."""


def played(style, *moves):
    state = make_game("tic_tac_toe", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


def test_brief_wording_names_the_opponents_cells_only():
    state = played("brief", "b2")
    assert state.observe(1).text == "tictactoe O b2"
    state = played("brief", "b2", "a1", "c3")
    assert state.observe(1, 2).text == "c3"
    assert state.observe(1).text == "tictactoe O b2 a1 c3"
    assert state.observe(0, 1).text == "a1"
    assert state.observe(1, 3).text == "."


def test_full_wording_draws_the_board():
    text = played("full", "a1", "b1", "b2").observe(1, 2).text
    assert text.startswith("The player 'X' chose b2.\n\n" + BOARD)
    assert "Legal actions: c1, a2, c2, a3, b3, c3." in text
    assert "three" not in text.lower()


def test_a_line_wins():
    state = played("brief", "a1", "b1", "b2", "c1", "c3")
    assert state.done
    assert list(state.returns) == [1.0, -1.0]
    assert state.legal_actions() == ()


def test_a_taken_cell_is_refused():
    with pytest.raises(GameError, match="'b2' is not legal at ply 1; legal actions: a1, b1"):
        played("brief", "b2").apply("b2")

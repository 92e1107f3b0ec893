"""Tic-tac-toe: three in a row."""

from __future__ import annotations

import pyspiel

from sparring.games.base import Game, State, Style

CELLS = ("a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3")
RULES = (
    "We play tic-tac-toe. The board has columns a, b, c and rows 1, 2, 3; a cell is named by its column and row, such as b2 for "
    "the centre. The player 'X' moves first, then the players take turns to mark one empty cell. Three of your marks in a "
    "row, a column or a diagonal win; a full board without such a line is a draw."
)


class TicTacToe(Game):
    """Tic-tac-toe with cells a1 to c3."""

    title = "tictactoe"
    rules = RULES

    def __init__(self, style: Style) -> None:
        super().__init__(pyspiel.load_game("tic_tac_toe"), name="tic_tac_toe", roles=("X", "O"), words=CELLS, style=style)

    def position(self, state: State, seat: int) -> str:
        """Return the board, with '.' for an empty cell."""
        marks = ["."] * 9
        for event in state.trail:
            marks[event.action] = self.roles[event.player]
        rows = [f"{row + 1} {' '.join(marks[3 * row : 3 * row + 3])}" for row in range(3)]
        return "\n".join(["The board:", "  a b c", *rows])


def tic_tac_toe(*, style: Style = "brief") -> Game:
    """Tic-tac-toe: two seats, perfect information, a draw under best play.

    Args:
        style: wording, "brief" for tiny models, "full" for language models.
    """
    return TicTacToe(style)

"""Connect four: four in a row, with gravity."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load

ROWS, COLUMNS = 6, 7
RULES = (
    "We play connect four on a board of 7 columns, numbered 1 to 7 from left to right, and 6 "
    "rows. The player 'x' moves first, then the players take turns to drop one disc into a column "
    "that is not full; it falls to the lowest free cell. Four of your discs in a line (across, up "
    "or diagonally) win; a full board without such a line is a draw."
)


@dataclass(kw_only=True, eq=False)
class ConnectFour(Game):
    """Connect four: two seats, perfect information, a win for the first seat under optimal play.

    Args:
        style: wording, "brief" for tiny models, "full" for language models.
    """

    style: Style = "brief"

    title = "connectfour"
    rules = RULES

    def __post_init__(self) -> None:
        words = tuple(str(column + 1) for column in range(COLUMNS))
        super().__init__(
            load("connect_four"),
            name="connect_four",
            roles=("x", "o"),
            words=words,
            style=self.style,
        )

    def _columns(self, state: State) -> list[str]:
        columns: list[str] = [""] * COLUMNS
        for event in state.trail:
            columns[event.action] += self.roles[event.player]
        return columns

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        columns = self._columns(state)
        last_column = state.trail[-1].action if state.trail else -1
        board = [
            [
                _cell(self, column[row : row + 1], number == last_column and row == len(column) - 1)
                for number, column in enumerate(columns)
            ]
            for row in reversed(range(ROWS))
        ]
        grid(canvas, board, columns=self.words, most=46, below=True)

    def describe(self, state: State, seat: int | None) -> str:
        lines = (
            f"column {number}: {' '.join(column)}"
            for number, column in enumerate(self._columns(state), start=1)
            if column
        )
        discs = f"From the bottom up, {'; '.join(lines)}." if state.trail else "The board is empty."
        parts = (self.due_text(state), self.last_move(state), discs, self.payoff_line(state, seat))
        return " ".join(part for part in parts if part)

    def position(self, state: State, seat: int) -> str:
        columns = self._columns(state)
        rows = [
            " ".join(column[row : row + 1] or "." for column in columns)
            for row in reversed(range(ROWS))
        ]
        return "\n".join(["The board:", *rows, " ".join(self.words)])


def _cell(game: Game, disc: str, is_last: bool) -> BoardCell:
    if not disc:
        return BoardCell()
    colour = seat_colour(game.roles.index(disc))
    return BoardCell(disc, shape="disc", colour=colour, marked=is_last, bold=True)


connect_four = ConnectFour

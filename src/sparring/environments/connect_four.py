"""Connect four: four in a row, with gravity."""

from __future__ import annotations

from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load

ROWS, COLUMNS = 6, 7
RULES = (
    "We play connect four on a board of 7 columns, numbered 1 to 7 from left to right, and 6 "
    "rows. The player 'x' moves first, then the players take turns to drop one disc into a column "
    "that is not full; it falls to the lowest free cell. Four of your discs in a line (across, up "
    "or diagonally) win; a full board without such a line is a draw."
)


class ConnectFour(Game):
    """Connect four with columns 1 to 7."""

    title = "connectfour"
    rules = RULES

    def __init__(self, style: Style) -> None:
        words = tuple(str(column + 1) for column in range(COLUMNS))
        super().__init__(
            load("connect_four"),
            name="connect_four",
            roles=("x", "o"),
            words=words,
            style=style,
        )

    def position(self, state: State, seat: int) -> str:
        """Return the board, top row first, with '.' for an empty cell."""
        columns: list[str] = [""] * COLUMNS
        for event in state.trail:
            columns[event.action] += self.roles[event.player]
        rows = [
            " ".join(column[row : row + 1] or "." for column in columns)
            for row in reversed(range(ROWS))
        ]
        return "\n".join(["The board:", *rows, " ".join(self.words)])


def connect_four(*, style: Style = "brief") -> Game:
    """Connect four: two seats, perfect information, a win for the first seat under best play.

    Args:
        style: wording, "brief" for tiny models, "full" for language models.
    """
    return ConnectFour(style)

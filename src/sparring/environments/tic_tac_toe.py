"""Tic-tac-toe: three in a row."""

from __future__ import annotations

from sparring.core.errors import ConfigError
from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.options import entry_of

CELLS = ("a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3")
RULES = (
    "We play tic-tac-toe. The board has columns a, b, c and rows 1, 2, 3; a cell is named by its "
    "column and row, such as b2 for the centre. The player 'X' moves first, then the players take "
    "turns to mark one empty cell. Three of your marks in a row, a column or a diagonal win; a "
    "full board without such a line is a draw."
)


class TicTacToe(Game):
    """Tic-tac-toe: two seats, perfect information, a draw under optimal play.

    Args:
        start: moves before the game begins, 'X' first, such as "a1 b2 c3". Seats and roles do not
            change, so 'O' acts first after an odd number of moves. With three or more moves the
            game is small enough for exact evaluation.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: ``start`` repeats a cell, has a word that is no cell, or ends the game.
    """

    title = "tictactoe"
    rules = RULES

    def __init__(self, *, start: str = "", style: Style = "brief") -> None:
        moves = _parse_moves(start)
        spiel = load("tic_tac_toe")
        if moves:
            history = ";".join(str(CELLS.index(cell)) for cell in moves)
            # the blank stops OpenSpiel from parsing a single id as a number
            spiel = load(f"start_at(game=tic_tac_toe(),history= {history})")
        super().__init__(spiel, name="tic_tac_toe", roles=("X", "O"), words=CELLS, style=style)
        self.start = moves
        self.max_turns = len(CELLS) - len(moves)

    def private(self, state: State, seat: int) -> str:
        """Return the moves before the game began, which both seats know."""
        if self.brief or not self.start:
            return " ".join(self.start)
        return f"The game begins after these moves, 'X' first: {', '.join(self.start)}."

    def _marks(self, state: State) -> list[str]:
        marks = ["."] * 9
        for number, cell in enumerate(self.start):
            marks[CELLS.index(cell)] = self.roles[number % 2]
        for event in state.trail:
            marks[event.action] = self.roles[event.player]
        return marks

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        last_cell = state.trail[-1].action if state.trail else -1
        cells = [
            BoardCell(
                "" if mark == "." else mark,
                colour="ink" if mark == "." else seat_colour(self.roles.index(mark)),
                marked=index == last_cell,
                bold=True,
            )
            for index, mark in enumerate(self._marks(state))
        ]
        board = [cells[start : start + 3] for start in (0, 3, 6)]
        grid(canvas, board, rows=("1", "2", "3"), columns=("a", "b", "c"), most=84)

    def describe(self, state: State, seat: int | None) -> str:
        marks = self._marks(state)
        lines = []
        for role in self.roles:
            cells = [cell for cell, mark in zip(CELLS, marks, strict=True) if mark == role]
            lines.append(f"{role} has {', '.join(cells) or 'no cell'}.")
        parts = (self.due_text(state), self.last_move(state), *lines, self.payoff_line(state, seat))
        return " ".join(part for part in parts if part)

    def position(self, state: State, seat: int) -> str:
        marks = self._marks(state)
        rows = [f"{row + 1} {' '.join(marks[3 * row : 3 * row + 3])}" for row in range(3)]
        return "\n".join(["The board:", "  a b c", *rows])


def _parse_moves(start: str) -> tuple[str, ...]:
    node, moves = load("tic_tac_toe").new_initial_state(), tuple(start.split())
    for number, cell in enumerate(moves):
        free_cells = [CELLS[index] for index in node.legal_actions()]
        if cell not in free_cells:
            raise ConfigError(
                f"tic_tac_toe: start={start!r}: move {number + 1}, {cell!r}, is not possible; "
                f"write one of: {', '.join(free_cells)}."
            )
        node = node.child(CELLS.index(cell))
        if node.is_terminal():
            earlier_moves = " ".join(moves[:number])
            raise ConfigError(
                f"tic_tac_toe: start={start!r}: the game is over after {cell!r}; write fewer "
                f"moves, such as {earlier_moves!r}."
            )
    return moves


tic_tac_toe = entry_of(TicTacToe)

"""The picture of a Sokoban room."""

from __future__ import annotations

from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.sokoban.distances import DIRECTIONS
from sparring.environments.sokoban.rules import SokobanTable


def paint(canvas: Canvas, table: SokobanTable, seat: int | None) -> None:
    """Draw a room; nothing of it is hidden.

    A wall is filled, a goal is a ring, a box is a square (green on a goal), the agent a disc.
    """
    rows, columns = table.floor.rows, table.floor.columns
    board = [
        [_cell(table, row * columns + column) for column in range(columns)] for row in range(rows)
    ]
    names = [f"c{column + 1}" for column in range(columns)]
    grid(canvas, board, rows=[f"r{row + 1}" for row in range(rows)], columns=names)
    paragraph(canvas, _moves(table), colour="dim")


def describe(table: SokobanTable, seat: int | None) -> str:
    """Return where everything is, and how many moves are left."""
    home = (table.boxes & table.floor.goals).bit_count()
    return (
        f"{home} of {table.boxes.bit_count()} boxes are on goals. {_moves(table)} "
        f"The room: {' '.join(table.told()[:-2])}."
    )


def _cell(table: SokobanTable, place: int) -> Cell:
    """Return a cell of the picture."""
    goal = bool(table.floor.goals >> place & 1)
    if table.floor.walls >> place & 1:
        return Cell(fill="rule")
    if table.boxes >> place & 1:
        return Cell(shape="square", colour="green" if goal else "orange", marked=goal)
    if place == table.agent:
        return Cell("@", shape="disc", colour="blue", bold=True, marked=goal)
    return Cell(shape="ring", colour="green") if goal else Cell()


def _moves(table: SokobanTable) -> str:
    """Return the last move, and how many are left."""
    left = table.options.moves - len(table.moves)
    if not table.moves:
        return f"{left} moves are left."
    return f"The last move is {DIRECTIONS[table.moves[-1]]}; {left} moves are left."

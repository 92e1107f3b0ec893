"""The piece for boards: a grid of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparring.environments.drawing.canvas import EDGE, WIDTH, Canvas, on

INSIDE = WIDTH - 2 * EDGE


class Cell(NamedTuple):
    """A cell of a board.

    Attributes:
        text: a sign or a short word.
        fill: colour of the cell.
        shape: what is drawn in it: "" nothing, a "disc", a "ring", a "square" or a
            small "dot".
        colour: of the shape, or of the text.
        marked: whether the cell is outlined: the last move.
        bold: whether the text is written so.
    """

    text: str = ""
    fill: str = "none"
    shape: str = ""
    colour: str = "ink"
    marked: bool = False
    bold: bool = False


def grid(
    canvas: Canvas,
    cells: Sequence[Sequence[Cell]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    boxes: tuple[int, int] = (0, 0),
    most: float = 56,
    below: bool = False,
) -> None:
    """Draw a board of squares in the middle.

    Args:
        canvas: to draw on.
        cells: row by row.
        rows: names of the rows, written at the left.
        columns: names of the columns.
        boxes: rows and columns after which a thick line is drawn; 0: none.
        most: side of a square in units, if there is room.
        below: whether the columns' names stand below the board.
    """
    wide, high = len(cells[0]), len(cells)
    side = min(most, (INSIDE - 40) / wide)
    left = (WIDTH - side * wide) / 2
    head = 20.0 if columns else 0.0
    top = canvas.room(head + side * high) + (0 if below else head)
    for r, row in enumerate(cells):
        if rows:
            canvas.text(
                left - 10,
                top + side * (r + 0.5) + 5,
                rows[r],
                size=14,
                colour="dim",
                anchor="end",
                width=max(30.0, left - 10 - EDGE),
            )
        for c, cell in enumerate(row):
            _cell(canvas, cell, left + side * c, top + side * r, side)
    for c, name in enumerate(columns):
        y = top + side * high + 16 if below else top - 6
        x = left + side * (c + 0.5)
        canvas.text(x, y, name, size=14, colour="dim", anchor="middle", width=side)
    _lines(canvas, (left, top), (wide, high), side, boxes)
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            if cell.marked:
                x, y = left + side * c + 2, top + side * r + 2
                canvas.box(x, y, side - 4, side - 4, edge="ink", thick=2.5)


def _cell(canvas: Canvas, cell: Cell, x: float, y: float, side: float) -> None:
    if cell.fill != "none":
        canvas.box(x, y, side, side, fill=cell.fill)
    middle = x + side / 2, y + side / 2
    if cell.shape == "disc":
        canvas.disc(*middle, side * 0.38, fill=cell.colour)
    elif cell.shape == "ring":
        canvas.disc(*middle, side * 0.32, edge=cell.colour, thick=side * 0.1)
    elif cell.shape == "square":
        inner = side * 0.64
        canvas.box(x + (side - inner) / 2, y + (side - inner) / 2, inner, inner, fill=cell.colour)
    elif cell.shape == "dot":
        canvas.disc(*middle, side * 0.12, fill=cell.colour)
    if cell.text:
        size = min(side * (0.5 if len(cell.text) < 3 else 0.3), 30)
        colour = on(cell.colour) if cell.shape == "disc" else cell.colour
        canvas.text(
            middle[0],
            middle[1] + size * 0.36,
            cell.text,
            size=size,
            colour=colour,
            anchor="middle",
            bold=cell.bold,
            width=side,
        )


def _lines(
    canvas: Canvas,
    corner: tuple[float, float],
    size: tuple[int, int],
    side: float,
    boxes: tuple[int, int],
) -> None:
    (left, top), (wide, high) = corner, size
    for r in range(high + 1):
        thick = r in (0, high) or (boxes[0] and r % boxes[0] == 0)
        canvas.line(
            left,
            top + side * r,
            left + side * wide,
            top + side * r,
            colour="dim" if thick else "rule",
            thick=2 if thick else 1,
        )
    for c in range(wide + 1):
        thick = c in (0, wide) or (boxes[1] and c % boxes[1] == 0)
        canvas.line(
            left + side * c,
            top,
            left + side * c,
            top + side * high,
            colour="dim" if thick else "rule",
            thick=2 if thick else 1,
        )

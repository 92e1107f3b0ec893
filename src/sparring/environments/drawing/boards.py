"""Boards of square cells, and rows of cards, dice and discs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparring.environments.drawing.canvas import BOLD, EDGE, WIDTH, Canvas, text_hue
from sparring.environments.drawing.words import visible_text, width_of

INSIDE = WIDTH - 2 * EDGE


class BoardCell(NamedTuple):
    """A cell of a board.

    Attributes:
        text: a character or a short word.
        fill: colour of the cell.
        shape: "disc", "ring", "square", a small "dot", or "" for no shape.
        colour: colour of the shape or of the text.
        marked: whether to outline the cell, as the last move.
        bold: whether the text is bold.
    """

    text: str = ""
    fill: str = "none"
    shape: str = ""
    colour: str = "ink"
    marked: bool = False
    bold: bool = False


def grid(
    canvas: Canvas,
    cells: Sequence[Sequence[BoardCell]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    boxes: tuple[int, int] = (0, 0),
    most: float = 56,
    below: bool = False,
) -> None:
    """Draw a centred board of squares.

    Args:
        canvas: the canvas.
        cells: the cells, [rows][columns].
        rows: names of the rows, at the left.
        columns: names of the columns.
        boxes: numbers of rows and of columns between thick lines; 0: no thick lines.
        most: largest side of a square, in units of the picture.
        below: whether the names of the columns are below the board.
    """
    num_columns, num_rows = len(cells[0]), len(cells)
    side = min(most, (INSIDE - 40) / num_columns)
    left = (WIDTH - side * num_columns) / 2
    names_height = 20.0 if columns else 0.0
    top = canvas.reserve(names_height + side * num_rows) + (0 if below else names_height)
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
            _draw_cell(canvas, cell, left + side * c, top + side * r, side)
    for c, name in enumerate(columns):
        y = top + side * num_rows + 16 if below else top - 6
        x = left + side * (c + 0.5)
        canvas.text(x, y, name, size=14, colour="dim", anchor="middle", width=side)
    _draw_lines(canvas, (left, top), (num_columns, num_rows), side, boxes)
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            if cell.marked:
                x, y = left + side * c + 2, top + side * r + 2
                canvas.box(x, y, side - 4, side - 4, edge="ink", thick=2.5)


def _draw_cell(canvas: Canvas, cell: BoardCell, x: float, y: float, side: float) -> None:
    if cell.fill != "none":
        canvas.box(x, y, side, side, fill=cell.fill)
    middle = x + side / 2, y + side / 2
    if cell.shape == "disc":
        canvas.disc(*middle, side * 0.38, fill=cell.colour)
    elif cell.shape == "ring":
        canvas.disc(*middle, side * 0.32, edge=cell.colour, thick=side * 0.1)
    elif cell.shape == "square":
        inner_side = side * 0.64
        canvas.box(
            x + (side - inner_side) / 2,
            y + (side - inner_side) / 2,
            inner_side,
            inner_side,
            fill=cell.colour,
        )
    elif cell.shape == "dot":
        canvas.disc(*middle, side * 0.12, fill=cell.colour)
    if cell.text:
        size = min(side * (0.5 if len(cell.text) < 3 else 0.3), 30)
        colour = text_hue(cell.colour) if cell.shape == "disc" else cell.colour
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


def _draw_lines(
    canvas: Canvas,
    corner: tuple[float, float],
    size: tuple[int, int],
    side: float,
    boxes: tuple[int, int],
) -> None:
    (left, top), (num_columns, num_rows) = corner, size
    for r in range(num_rows + 1):
        is_thick = r in (0, num_rows) or (boxes[0] and r % boxes[0] == 0)
        canvas.line(
            left,
            top + side * r,
            left + side * num_columns,
            top + side * r,
            colour="dim" if is_thick else "rule",
            thick=2 if is_thick else 1,
        )
    for c in range(num_columns + 1):
        is_thick = c in (0, num_columns) or (boxes[1] and c % boxes[1] == 0)
        canvas.line(
            left + side * c,
            top,
            left + side * c,
            top + side * num_rows,
            colour="dim" if is_thick else "rule",
            thick=2 if is_thick else 1,
        )


LABEL_WIDTH = 112.0  # width of the label before a row, in units
PIPS = {  # offsets of the pips of a die from its middle
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (1, -1), (-1, 1), (1, 1)),
    5: ((-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)),
    6: ((-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)),
}


class Card(NamedTuple):
    """A card: its face ("" for face down), a colour, and a word below it."""

    face: str
    colour: str = "ink"
    note: str = ""


def _draw_tile(
    canvas: Canvas, rectangle: tuple[float, float, float, float], is_hidden: bool, *, corner: float
) -> None:
    fill = "panel" if is_hidden else "paper"
    canvas.box(*rectangle, fill=fill, edge="dim", thick=1.5, corner=corner, dashed=is_hidden)


def _draw_label(canvas: Canvas, label: str, y: float, colour: str) -> float:
    """Draw the label of a row, and return the left edge of the row."""
    if not label:
        return EDGE
    if colour != "none":
        canvas.box(EDGE, y - 13, 8, 18, fill=colour, corner=2)
    start = EDGE + (14 if colour != "none" else 0)
    canvas.text(start, y, label, size=14, width=LABEL_WIDTH - 18)
    return EDGE + LABEL_WIDTH


def cards(
    canvas: Canvas, label: str, hand: Sequence[Card], *, colour: str = "none", height: float = 58
) -> None:
    """Draw a row of cards after a label.

    Args:
        canvas: the canvas.
        label: words before the cards.
        hand: the cards.
        colour: colour of a mark before the label, such as the colour of a seat.
        height: height of a card, in units.
    """
    note_height = 16 if any(card.note for card in hand) else 0
    top = canvas.reserve(height + note_height)
    left = _draw_label(canvas, label, top + height / 2 + 5, colour)
    width = min(height * 0.72, (WIDTH - EDGE - left + 6) / max(1, len(hand)) - 6)
    for number, card in enumerate(hand):
        x = left + (width + 6) * number
        is_hidden = not card.face
        size = min(22.0, (width - 6) / max(1.0, BOLD * width_of(visible_text(card.face), 1)))
        _draw_tile(canvas, (x, top, width, height), is_hidden, corner=5)
        canvas.text(
            x + width / 2,
            top + height / 2 + 8,
            card.face or "?",
            size=size,
            bold=not is_hidden,
            colour="dim" if is_hidden else "ink",
            anchor="middle",
            width=width,
        )
        if card.colour != "ink":
            canvas.box(x + 4, top + 4, width - 8, 7, fill=card.colour, corner=2)
        if card.note:
            canvas.text(
                x + width / 2,
                top + height + 14,
                card.note,
                size=13,
                colour="dim",
                anchor="middle",
                width=width + 4,
            )


def dice(canvas: Canvas, label: str, faces: Sequence[int | None], *, colour: str = "none") -> None:
    """Draw dice after a label; None is a hidden die."""
    side = 40.0
    top = canvas.reserve(side)
    left = _draw_label(canvas, label, top + side / 2 + 5, colour)
    for number, face in enumerate(faces):
        x = left + (side + 6) * number
        is_hidden = face is None
        _draw_tile(canvas, (x, top, side, side), is_hidden, corner=7)
        middle = x + side / 2, top + side / 2
        if face in PIPS:
            for dx, dy in PIPS[face]:
                canvas.disc(middle[0] + dx * 11, middle[1] + dy * 11, 3.6, fill="ink")
        else:
            word = "?" if face is None else str(face)
            canvas.text(
                middle[0],
                middle[1] + 7,
                word,
                size=20,
                anchor="middle",
                colour="dim" if is_hidden else "ink",
                bold=not is_hidden,
            )


def discs(
    canvas: Canvas,
    label: str,
    row: Sequence[tuple[str, str]],
    *,
    colour: str = "none",
    after: str = "",
    radius: float = 14,
) -> None:
    """Draw a row of discs after a label, each with a character and a colour.

    Args:
        canvas: the canvas.
        label: words before the row.
        row: (character, colour) per disc; the colour "none" is an empty disc.
        colour: colour of a mark before the label.
        after: words at the right of the row.
        radius: largest radius of a disc; many discs are smaller.
    """
    left = EDGE + LABEL_WIDTH if label else EDGE
    free_width = WIDTH - EDGE - left - (110 if after else 0)
    radius = min(radius, (free_width / max(1, len(row)) - 4) / 2)
    height = max(2 * radius, 18)
    top = canvas.reserve(height)
    _draw_label(canvas, label, top + height / 2 + 5, colour)
    for number, (character, fill) in enumerate(row):
        x, y = left + radius + (2 * radius + 4) * number, top + height / 2
        canvas.disc(x, y, radius, fill=fill, edge="dim" if fill in ("none", "white") else "none")
        canvas.text(
            x,
            y + radius * 0.36,
            character,
            size=max(radius, 8),
            anchor="middle",
            bold=True,
            colour="ink" if fill == "none" else "black" if fill == "white" else text_hue(fill),
            width=2 * radius,
        )
    if after:
        canvas.text(WIDTH - EDGE, top + height / 2 + 5, after, size=14, anchor="end", width=108)

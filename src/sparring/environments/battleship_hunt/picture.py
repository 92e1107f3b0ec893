"""The picture of the sea: shots and, for a reader from whom nothing is hidden, the ships."""

from __future__ import annotations

from sparring.environments.battleship_hunt.rules import ANSWERS, Sea, word_of
from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph


def paint(canvas: Canvas, table: Sea, seat: int | None) -> None:
    """Draw a sea: a dot is a miss, a cross a hit, a filled cross the hit that sank a ship.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks; None: the cells of ships are filled.
    """
    ships = sum(table.ships) if seat is None else 0
    answers = dict(zip(table.moves, table.answers, strict=True))
    last = table.moves[-1] if table.moves else -1
    cells = [
        _cell(answers.get(cell), bool(ships >> cell & 1), cell == last)
        for cell in range(table.cells)
    ]
    board = [cells[start : start + table.columns] for start in range(0, table.cells, table.columns)]
    columns = [str(column + 1) for column in range(table.columns)]
    grid(canvas, board, rows="abcdefgh"[: table.rows], columns=columns)
    paragraph(canvas, _news(table), colour="dim")


def describe(table: Sea, seat: int | None) -> str:
    """Return the last shot, what is left, and where was hit."""
    hit = [
        word_of(table.columns, move)
        for move, answer in zip(table.moves, table.answers, strict=True)
        if answer
    ]
    ships = ""
    if seat is None:
        said = (
            " ".join(
                word_of(table.columns, cell) for cell in range(table.cells) if ship >> cell & 1
            )
            for ship in table.ships
        )
        ships = f" The ships lie on {'; '.join(said)}."
    return f"{_news(table)} Hit so far: {', '.join(hit) or 'nothing'}.{ships}"


def _cell(answer: int | None, ship: bool, last: bool) -> Cell:
    """Return a cell of the picture."""
    fill = "sky" if ship else "none"
    if answer is None:
        return Cell(fill=fill)
    if not answer:
        return Cell(fill="panel", shape="dot", colour="dim", marked=last)
    if answer == 1:
        return Cell("X", fill=fill, colour="black" if ship else "red", marked=last, bold=True)
    return Cell("X", fill=fill, shape="disc", colour="red", marked=last, bold=True)


def _news(table: Sea) -> str:
    """Return the last shot and what is left."""
    afloat = len(table.lengths) - table.sunk
    left = f"{table.left} shots and {afloat} of {len(table.lengths)} ships are left."
    if not table.moves:
        return left
    word = word_of(table.columns, table.moves[-1])
    return f"The last shot is {word}: {ANSWERS[table.answers[-1]]}; {left}"

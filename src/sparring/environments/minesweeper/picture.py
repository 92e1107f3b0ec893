"""The picture of a minefield."""

from __future__ import annotations

from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.minesweeper.rules import Minefield, word_of

COUNTS = ("dim", "blue", "green", "red", "pink", "orange", "sky", "ink", "ink")


def paint(canvas: Canvas, table: Minefield, seat: int | None) -> None:
    """Draw a field: closed cells are grey, open ones say how many mines are around.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks; None: every mine is drawn, once mines are laid.
    """
    last = table.moves[-1] % table.cells if table.moves else -1
    cells = [_cell(table, cell, seat, cell == last) for cell in range(table.cells)]
    board = [cells[start : start + table.columns] for start in range(0, table.cells, table.columns)]
    rows = [f"r{row + 1}" for row in range(table.rows)]
    columns = [f"c{column + 1}" for column in range(table.columns)]
    grid(canvas, board, rows=rows, columns=columns)
    paragraph(canvas, _news(table), colour="dim")


def describe(table: Minefield, seat: int | None) -> str:
    """Return the last move, how many cells are closed, and the rows as they are seen."""
    mines = ""
    if seat is None and table.mined:
        words = (word_of(table.rows, table.columns, cell) for cell in sorted(table.mined))
        mines = f" The mines are in {', '.join(words)}."
    return f"{_news(table)} The rows: {table.view(0).replace('/', ' ')}.{mines}"


def _cell(table: Minefield, cell: int, seat: int | None, last: bool) -> Cell:
    """Return a cell of the picture."""
    mine = cell in table.mined and (seat is None or (last and table.lost))
    if cell in table.opened:
        count = table.number(cell)
        return Cell(str(count) if count else "", colour=COUNTS[count], marked=last, bold=True)
    if cell in table.flagged:
        wrong = last and table.lost
        return Cell("F", fill="panel", colour="red" if wrong else "orange", marked=last, bold=True)
    if mine:
        struck = last and table.lost
        return Cell("*", fill="panel", shape="disc", colour="red" if struck else "sky", marked=last)
    return Cell(fill="panel")


def _news(table: Minefield) -> str:
    """Return the last move and how many cells are closed."""
    closed = table.cells - len(table.opened)
    left = f"{closed} cells are closed, {table.mines} of them with a mine."
    if not table.moves:
        return left
    word = word_of(table.rows, table.columns, table.moves[-1])
    if table.lost:
        return f"{word} lost the game; {left}"
    return f"The last move is {word}; {left}"

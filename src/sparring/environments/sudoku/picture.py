"""The picture of a Sudoku: the board, what was written into it, and for a reader the solution."""

from __future__ import annotations

from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.sudoku.deduction import BOXES
from sparring.environments.sudoku.rules import SudokuTable, word_of


def paint(canvas: Canvas, table: SudokuTable, seat: int | None) -> None:
    """Draw a board: the puzzle's digits on grey, digits written in colour, the last one outlined.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks; None: digits that are wrong are red, and empty cells have small ones.
    """
    size, last = table.size, table.moves[-1] // table.size if table.moves else -1
    cells = [_cell(table, index, seat, index == last) for index in range(size * size)]
    board = [cells[start : start + size] for start in range(0, size * size, size)]
    names = [str(number + 1) for number in range(size)]
    rows = [f"r{name}" for name in names]
    grid(canvas, board, rows=rows, columns=[f"c{name}" for name in names], boxes=BOXES[size])
    paragraph(canvas, _news(table, seat), colour="dim")


def describe(table: SudokuTable, seat: int | None) -> str:
    """Return the last digit and how many cells are empty."""
    size = table.size
    lines = (
        "".join(str(digit or ".") for digit in table.cells[start : start + size])
        for start in range(0, size * size, size)
    )
    return f"{_news(table, seat)} The rows: {' '.join(lines)}."


def _cell(table: SudokuTable, index: int, seat: int | None, last: bool) -> Cell:
    """Return a cell of the picture."""
    digit, given = table.cells[index], table.givens[index]
    if given:
        return Cell(str(digit), fill="panel")
    if not digit:
        return Cell(str(table.solution[index]), colour="rule") if seat is None else Cell()
    wrong = digit != table.solution[index] and _told(table, seat)
    return Cell(str(digit), colour="red" if wrong else "blue", marked=last, bold=True)


def _told(table: SudokuTable, seat: int | None) -> bool:
    """Return whether the reader knows which digits are wrong: the seat does if one ends the play.

    A puzzle has one solution, so that what was written says it all.
    """
    return seat is None or table.wrong == "ends"


def _news(table: SudokuTable, seat: int | None) -> str:
    """Return what was written last, and what is empty."""
    empty = f"{table.cells.count(0)} of {len(table.cells)} cells are empty."
    if not table.moves:
        return f"Nothing is written yet; {empty}"
    move = table.moves[-1]
    wrong = table.solution[move // table.size] != move % table.size + 1
    word = "" if not _told(table, seat) else ", which is wrong" if wrong else ", which is right"
    return f"The last digit is {word_of(table.size, move)}{word}; {empty}"

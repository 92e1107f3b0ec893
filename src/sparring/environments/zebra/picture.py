"""The picture of a logic-grid puzzle: houses by attributes, and the clues."""

from __future__ import annotations

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, table
from sparring.environments.zebra.puzzles import ATTRIBUTES, VALUES, clue_words, word_of
from sparring.environments.zebra.rules import ZebraTable


def paint(canvas: Canvas, position: ZebraTable, seat: int | None) -> None:
    """Draw the houses as columns, and the clues below.

    Args:
        canvas: to draw on.
        position: the puzzle and what was written.
        seat: who looks; None: values that are wrong are red, and empty cells say the solution.
    """
    houses, attributes = position.houses, position.attributes
    rows = [("", *(f"house {house + 1}" for house in range(houses)))]
    faint, colours, marked = [], {}, []
    for number in range(attributes):
        row = [ATTRIBUTES[number]]
        for house in range(houses):
            cell, place = house * attributes + number, (number + 1, house + 1)
            value, right = position.cells[cell], position.solution[cell]
            if not value:
                faint.append(place)
                row.append(VALUES[number][right - 1] if seat is None else "?")
                continue
            row.append(VALUES[number][value - 1])
            wrong = value != right and (seat is None or position.wrong == "ends")
            colours[place] = "red" if wrong else "sky"
            if position.moves and position.moves[-1] // houses == cell:
                marked.append(place)
        rows.append(tuple(row))
    table(canvas, rows, faint=faint, colours=colours, marked=marked)
    heading(canvas, "Clues")
    said = "; ".join(clue_words(houses, clue) for clue in position.clues)
    paragraph(canvas, f"{said}.", most=12, size=14)


def describe(position: ZebraTable, seat: int | None) -> str:
    """Return what stands in each house, and how many cells are empty."""
    houses, attributes = position.houses, position.attributes
    said = []
    for house in range(houses):
        row = position.cells[house * attributes : (house + 1) * attributes]
        known = [VALUES[number][value - 1] for number, value in enumerate(row) if value]
        said.append(f"house {house + 1} has {', '.join(known) or 'nothing'}")
    last = ""
    if position.moves:
        last = f" {word_of(houses, attributes, position.moves[-1])} was written last."
    hidden = ""
    if seat is None and position.mistakes:
        hidden = f" {position.mistakes} values are wrong."
    return (
        f"{position.cells.count(0)} of {position.blanks} cells are empty: {'; '.join(said)}."
        f"{last}{hidden}"
    )

"""The picture of Mastermind: a row of pegs per guess, with its answer."""

from __future__ import annotations

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.drawing.rows import discs
from sparring.environments.mastermind.rules import COLOURS, Board, code_of

HUES = {
    "red": "red",
    "green": "green",
    "blue": "blue",
    "white": "white",
    "pink": "pink",
    "violet": "orange",  # no hue near to it can be told from blue and pink; the letter says it
}


def paint(canvas: Canvas, table: Board, seat: int | None) -> None:
    """Draw the guesses; the code above them, if the reader may know it.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks: it knows the code at the end; None: nothing is hidden.
    """
    code = _pegs(table, table.hidden) if _known(table, seat) else [("?", "none")] * table.pegs
    discs(canvas, "code", code)
    for number in range(table.guesses):
        if number < len(table.moves):
            exact, misplaced = table.answers[number]
            row, after = _pegs(table, table.moves[number]), f"{exact} + {misplaced}"
        else:
            row, after = [("", "none")] * table.pegs, ""
        discs(canvas, f"guess {number + 1}", row, after=after)
    paragraph(canvas, "After each guess: exact + misplaced.", colour="dim", size=14)


def describe(table: Board, seat: int | None) -> str:
    """Return the guesses with their answers, and the code if the reader may know it."""
    said = [
        f"{table.name_of(0, move)}: {exact} exact, {misplaced} misplaced"
        for move, (exact, misplaced) in zip(table.moves, table.answers, strict=True)
    ]
    code = f" The code is {table.name_of(0, table.hidden)}." if _known(table, seat) else ""
    guesses = f"Guesses: {'; '.join(said)}." if said else "No guess yet."
    return f"{guesses} {table.left} guesses are left.{code}"


def _known(table: Board, seat: int | None) -> bool:
    """Return whether the reader knows the code: at the end it is told."""
    return seat is None or table.cracked or not table.left


def _pegs(table: Board, index: int) -> list[tuple[str, str]]:
    """Return a code as letters with their colours."""
    names = (COLOURS[colour] for colour in code_of(table.pegs, table.colours, index))
    return [(name[0], HUES[name]) for name in names]

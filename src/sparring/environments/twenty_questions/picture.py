"""The picture of twenty questions: the table of objects, and the questions with their answers."""

from __future__ import annotations

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, strip, table
from sparring.environments.twenty_questions.rules import ATTRIBUTES, NOUNS, Inquiry

ROWS = 16  # objects that are drawn


def paint(canvas: Canvas, position: Inquiry, seat: int | None) -> None:
    """Draw the objects with their values, and the questions with their answers.

    Args:
        canvas: to draw on.
        position: the table, and what was asked.
        seat: who looks: it knows the object at the end; None: nothing is hidden.
    """
    names = [name for name, _ in ATTRIBUTES[: position.attributes]]
    rows = [("", *names), *position.sheet()[:ROWS]]
    known = seat is None or position.guessed
    shown = known and position.hidden < ROWS
    colours = {(position.hidden + 1, c): "sky" for c in range(len(names) + 1)} if shown else {}
    table(canvas, rows, size=13, colours=colours)
    if len(position.rows) > ROWS:
        paragraph(canvas, f"and {len(position.rows) - ROWS} more", colour="dim", size=14)
    heading(canvas, "Asked", f"{position.asked} of {position.questions}")
    moves = [(_step(position, number), _hue(position, number)) for number in _steps(position)]
    if moves:
        strip(canvas, moves)
    else:
        paragraph(canvas, "Nothing asked yet.", colour="dim")


def describe(position: Inquiry, seat: int | None) -> str:
    """Return the questions with their answers, and the object if the reader may know it."""
    said = "; ".join(_step(position, number) for number in _steps(position))
    left = position.questions - position.asked
    hidden = f" The object is {NOUNS[position.hidden]}." if seat is None else ""
    return (
        f"One of {position.objects} objects is hidden. Asked: {said or 'nothing'}. "
        f"{left} questions are left.{hidden}"
    )


def _steps(position: Inquiry) -> range:
    """Return the numbers of the actions."""
    return range(len(position.moves))


def _step(position: Inquiry, number: int) -> str:
    """Return a question with its answer, or the guess with what came of it."""
    word, told = position.name_of(0, position.moves[number]), " ".join(position.told(number))
    if position.moves[number] < position.kinds:
        return f"{word}? {told}".rstrip()
    return f"guess {word}: {told}"


def _hue(position: Inquiry, number: int) -> str:
    """Return the colour of an answer: yes and right, no and wrong, or none yet."""
    told = position.told(number)
    if not told:
        return "dim"
    return "green" if told[0] in ("yes", "right") else "red"

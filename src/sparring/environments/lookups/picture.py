"""The picture of a question: its words, the answer and, for a reader, the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats
from sparring.environments.drawing.told import due_sentence
from sparring.environments.drawing.words import wrapped

if TYPE_CHECKING:
    from sparring.environments.lookups.rules import Question


def paint(canvas: Canvas, play: Question, seat: int | None) -> None:
    """Draw a question.

    Args:
        canvas: to draw on.
        play: the question, answered or not.
        seat: who looks; None: the right answer and the facts are drawn too.
    """
    seats(canvas, play.rules.roles, play.due())
    heading(canvas, "Question")
    paragraph(canvas, play.start.question(play.rules.style), most=6)
    if play.said is not None:
        paragraph(canvas, f"Answered: {play.said}")
    if seat is None:
        paragraph(canvas, f"The answer is {play.start.answer}.", colour="dim")
        heading(canvas, "Library")
        facts = " ".join(f"{fact.rstrip('.')}." for fact in play.start.documents(play.rules.style))
        paragraph(canvas, facts, most=16, colour="dim", size=14)


def describe(play: Question, seat: int | None) -> str:
    """Return who is due, the question, the answer given and, with nothing hidden, the right one."""
    parts = [due_sentence([play.rules.roles[one] for one in play.due()])]
    parts.append(f"The question: {play.start.question(play.rules.style)}")
    if play.said is not None:
        parts.append(f"Answered: {wrapped(play.said, 1, 60, 1)[0]}.")
    if seat is None:
        parts.append(f"The answer is {play.start.answer}.")
    return " ".join(parts)

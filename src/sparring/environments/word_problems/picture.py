"""The picture of a word problem: the story, the answer and, for a reader, the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats
from sparring.environments.drawing.told import due_sentence

if TYPE_CHECKING:
    from sparring.environments.word_problems.rules import Problem


def paint(canvas: Canvas, play: Problem, seat: int | None) -> None:
    """Draw a problem.

    Args:
        canvas: to draw on.
        play: the problem, answered or not.
        seat: who looks; None: the right answer is drawn too.
    """
    seats(canvas, play.rules.roles, play.due())
    heading(canvas, "Problem")
    paragraph(canvas, play.start.told(play.rules.brief), most=8)
    if play.said is not None:
        paragraph(canvas, f"Answered: {play.said}")
    if seat is None:
        paragraph(canvas, f"The answer is {play.start.answer}.", colour="dim")


def describe(play: Problem, seat: int | None) -> str:
    """Return who is due, the story, the answer given and, with nothing hidden, the right one."""
    parts = [due_sentence([play.rules.roles[one] for one in play.due()])]
    parts.append(f"The problem: {play.start.told(play.rules.brief)}")
    if play.said is not None:
        parts.append(f"Answered: {play.said}.")
    if seat is None:
        parts.append(f"The answer is {play.start.answer}.")
    return " ".join(parts)

"""The picture of the urns: what is in each, which balls were drawn, and how it ended."""

from __future__ import annotations

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph
from sparring.environments.drawing.rows import discs
from sparring.environments.urn.rules import COLOURS, NAMES, UrnTable


def paint(canvas: Canvas, table: UrnTable, seat: int | None) -> None:
    """Draw the urns as rows of balls, and the balls drawn.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks; None: the hidden urn is named.
    """
    heading(canvas, "Urns")
    for number, content in enumerate(table.contents):
        balls = [ball for colour, count in enumerate(content) for ball in [_ball(colour)] * count]
        discs(canvas, NAMES[number], balls, radius=11)
    heading(canvas, "Drawn", f"{len(table.drawn)} of {table.options.draws}")
    rest = [("", "none")] * (table.options.draws - len(table.drawn))
    discs(canvas, "", [*map(_ball, table.drawn), *rest], radius=11)
    paragraph(canvas, _end(table, seat))


def describe(table: UrnTable, seat: int | None) -> str:
    """Return the urns, the balls drawn and how it ended."""
    urns = "; ".join(f"{words[0]} {', '.join(_counted(words[1:]))}" for words in table.sheet())
    drawn = ", ".join(_counted([str(count) for count in table.counts()]))
    return f"The urns: {urns}. Drawn so far: {drawn}. {_end(table, seat)}".strip()


def _ball(colour: int) -> tuple[str, str]:
    """Return a ball as its letter and its colour."""
    return COLOURS[colour][0], COLOURS[colour]


def _counted(counts: list[str] | tuple[str, ...]) -> list[str]:
    """Return numbers of balls with their colours."""
    return [f"{count} {colour}" for count, colour in zip(counts, COLOURS, strict=False)]


def _end(table: UrnTable, seat: int | None) -> str:
    """Return what was declared, and which urn it is if the reader may know it."""
    if table.declared < 0:
        return f"It is urn {NAMES[table.hidden]}." if seat is None else ""
    right = table.declared == table.hidden
    word = "which is right" if right else f"which is wrong: it is {NAMES[table.hidden]}"
    return f"Declared {NAMES[table.declared]}, {word}."

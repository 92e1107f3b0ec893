"""The picture of a search: the table as far as it is known, and who is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.wide_search import searching

if TYPE_CHECKING:
    from sparring.environments.wide_search.play import Search

ROWS = 12  # of the table that are drawn


def paint(canvas: Canvas, play: Search, seat: int | None) -> None:
    """Draw a search.

    Args:
        canvas: to draw on.
        play: the search.
        seat: who looks; None: the truth stands beside what was noted.
    """
    rules, start, due = play.rules, play.start, play.due()
    seats(canvas, rules.roles, due if seat is None else tuple({seat} & {*due}))
    if seat is not None and not rules.leads(seat):
        _own(canvas, play, seat)
    elif seat is None:
        rows: list[tuple[str, ...]] = [("", *start.columns)]
        for item in range(min(len(start.names), ROWS)):
            cells = (_cell(play, item, column) for column in range(rules.columns))
            rows.append((start.names[item], *cells))
        heading(canvas, "Table", "noted / right")
        table(canvas, rows)
    if play.written and seat in (None, 0):
        heading(canvas, "Answer", "malformed" if play.answer is None else "")
        for line in play.written.splitlines()[:ROWS]:
            paragraph(canvas, line, most=2)
    paragraph(canvas, describe(play, seat), colour="dim")


def _own(canvas: Canvas, play: Search, seat: int) -> None:
    """Draw what a worker sees: its items, and the page that is open."""
    call = play.calls.get(seat)
    if call is not None:
        heading(canvas, "Items")
        paragraph(canvas, ", ".join(play.start.names[item] for item in call.items))
        if call.open >= 0:
            _page(canvas, play, call.open)


def _page(canvas: Canvas, play: Search, number: int) -> None:
    """Draw the page that is open."""
    if play.rules.by_words:
        page = searching.pages(play)[number]
        heading(canvas, page.title)
        for line in page.text.splitlines()[:ROWS]:
            paragraph(canvas, line, most=2)
        return
    row = play.start.row(number)
    heading(canvas, play.start.names[number])
    table(canvas, [tuple(row), tuple(row.values())])


def _cell(play: Search, item: int, column: int) -> str:
    """Return what was noted of a cell, and what is right where that is something else."""
    noted, right = play.notes.get((item, column)), play.start.values[item][column]
    if noted is None:
        return f"- / {right}"
    return noted if noted == right else f"{noted} / {right}"


def describe(play: Search, seat: int | None) -> str:
    """Return how far a search is, as a seat knows it."""
    rules = play.rules
    if seat is None:
        over = f" Item F1: {play.returns[0]:.3f}." if play.done else ""
        cells = f"Cells noted: {len(play.notes)} of {len(play.start.names) * rules.columns}."
        return f"{cells} Waves so far: {len(play.waves)}.{over}"
    if not rules.leads(seat):
        call = play.calls.get(seat)
        if call is None:
            return f"{rules.roles[seat]} is not at work."
        names = ", ".join(play.start.names[item] for item in call.items)
        return f"{rules.roles[seat]} searches for {names}; {call.left} turns left."
    told = " ".join(play.said[-1].split()) if play.said else "No worker was called yet."
    return f"{told} Waves so far: {len(play.waves)}."

"""What a worker says and does where a page is opened by the name of its row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparring.environments.wide_search.searching import DONE, NOTE, OPEN
from sparring.environments.wide_search.world import VALUES

if TYPE_CHECKING:
    from sparring.environments.wide_search.call import Call
    from sparring.environments.wide_search.play import Search


def actions(play: Search, call: Call) -> tuple[str, ...]:
    """Return what a worker may say: pages of its rows, open cells of the page that it reads."""
    start = play.start
    pages = (f"{OPEN} {start.names[item]}" for item in call.items if item != call.open)
    cells = (
        f"{NOTE} {name} {value}"
        for column, name in enumerate(start.columns)
        if call.open >= 0 and (call.open, column) not in play.notes
        for value in VALUES[name]
    )
    return (*pages, *cells, DONE)


def acted(play: Search, seat: int, call: Call, reply: str) -> Call:
    """Return a worker's call after an action; a value that it notes is kept by the play."""
    word, *rest = reply.split()
    if word == OPEN:
        return replace(call, open=play.start.names.index(rest[0]))
    if word == NOTE:
        cell = call.open, play.start.columns.index(rest[0])
        play.notes[cell], play.by[cell] = rest[1], seat
    return call


def came(play: Search, call: Call) -> str:
    """Return what a worker is told of its last action: the page, or that a cell is noted."""
    brief = play.rules.brief
    if call.told[-1].split()[0] != OPEN:
        return "noted" if brief else "Noted."
    page, name = play.start.row(call.open), play.start.names[call.open]
    if brief:
        return f"page {name} {' '.join(f'{one} {value}' for one, value in page.items())}"
    said = "; ".join(f"{one}: {value}" for one, value in page.items())
    return f"The page of {name}. {said}."


def forms(columns: tuple[str, ...], fresh: bool) -> str:
    """Return the forms of a worker's replies, in full style."""
    listed = "; ".join(f"{name} is one of {', '.join(VALUES[name])}" for name in columns)
    return (
        "Reply open NAME to read a page, note COLUMN VALUE to note a cell of the page that is "
        f"open, or done. Values: {listed}. For example: note {columns[0]} {VALUES[columns[0]][0]}"
    )

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

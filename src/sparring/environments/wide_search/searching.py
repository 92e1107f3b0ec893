"""What a worker says and does where pages are found by their words.

In brief style it chooses from a list; in full style it may say anything, and the first line that is
a command it can follow is its action.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sparring.core.rng import Stream
from sparring.environments.wide_search.library import Page, find, library
from sparring.environments.wide_search.world import VALUES

if TYPE_CHECKING:
    from sparring.environments.wide_search.call import Call
    from sparring.environments.wide_search.play import Search

SEARCH, OPEN, NOTE, DONE = "search", "open", "note", "done"
QUERY, VALUE = 200, 100  # characters of a query, and of a value, that are read
BETWEEN = " \t|,:;=\"'`*"  # what may stand around the parts of a note
_LINE = re.compile(r"[\W_]*(search|open|note|done)\b[ \t:]*(.*)", re.IGNORECASE)
_NUMBER = re.compile(r"\W{0,3}(\d{1,3})(?!\d)", re.ASCII)


def pages(play: Search) -> tuple[Page, ...]:
    """Return the pages of a play's world."""
    return library(play.start, play.rules.distractors, play.rules.brief)


def actions(play: Search, call: Call) -> tuple[str, ...]:
    """Return what a worker may say in brief style."""
    start = play.start
    names = [start.names[item] for item in call.items]
    asked = (*names, *start.columns, *(f"{one} {two}" for one in names for two in start.columns))
    notes = (
        f"{NOTE} {start.names[item]} {name} {value}"
        for item, column in missing(play, call)
        for name in start.columns[column : column + 1]
        for value in VALUES[name]
    )
    opened = (f"{OPEN} {number}" for number in range(1, len(call.found) + 1))
    return (*(f"{SEARCH} {words}" for words in asked), *opened, *notes, DONE)


def missing(play: Search, call: Call) -> list[tuple[int, int]]:
    """Return the cells that a worker may note now: its own open ones, once it has read a page."""
    columns = range(len(play.start.columns)) if call.open >= 0 else ()
    return [(item, one) for item in call.items for one in columns if (item, one) not in play.notes]


def acted(play: Search, seat: int, call: Call, reply: str) -> Call:
    """Return a worker's call after an action; a value that it notes is kept by the play."""
    word, _, rest = reply.partition(" ")
    if word == SEARCH:
        return replace(call, found=find(pages(play), rest))
    if word == OPEN:
        return replace(call, open=call.found[int(rest) - 1])
    if word == NOTE:
        noted = _noted(play, call, rest)
        assert noted is not None, "step() has read it"
        cell, value = noted
        play.notes[cell], play.by[cell] = value, seat
    return call


def read(play: Search, call: Call, reply: str, exact: bool) -> str | None:
    """Return the first action in a reply that a worker can follow now, in its own form, or None.

    Args:
        play: the search.
        call: the worker's.
        reply: any text; an action stands at the beginning of a line.
        exact: whether the reply must be the action and nothing else.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    if exact and len(lines) != 1:
        return None
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        found = match and _command(play, call, match[1].lower(), match[2].strip())
        if found:
            return found
    return None


def _command(play: Search, call: Call, word: str, rest: str) -> str | None:
    """Return an action in its own form; None where it cannot be followed now."""
    if word == DONE:
        return None if re.search(r"\w", rest) else DONE
    if word == SEARCH:
        words = " ".join(rest.split())[:QUERY].strip(BETWEEN)
        return f"{SEARCH} {words}" if re.search(r"[^\W_]", words) else None
    if word == OPEN:
        number = _NUMBER.match(rest)
        known = number is not None and 1 <= int(number[1]) <= len(call.found)
        return f"{OPEN} {int(number[1])}" if known and number else None
    noted = _noted(play, call, rest)
    if noted is None:
        return None
    (item, column), value = noted
    return f"{NOTE} {play.start.names[item]} | {play.start.columns[column]} | {value}"


def _noted(play: Search, call: Call, rest: str) -> tuple[tuple[int, int], str] | None:
    """Return the cell and the value of a note; None where no such cell may be noted now."""
    start, cells = play.start, missing(play, call)
    items = {start.names[item]: item for item, _ in cells}
    name, rest = _begins(rest, items)
    columns = {start.columns[one]: one for item, one in cells if item == items.get(name)}
    column, rest = _begins(rest, columns)
    value = " ".join(rest.strip(BETWEEN).replace("|", "/").split())[:VALUE].strip(BETWEEN)
    return ((items[name], columns[column]), value) if column and value else None


def _begins(text: str, names: dict[str, int]) -> tuple[str, str]:
    """Return the longest of some names that a text begins with, and the rest; "" without one."""
    text = text.strip(BETWEEN)
    for name in sorted(names, key=len, reverse=True):
        match = re.match(rf"{re.escape(name)}(?!\w)", text, re.IGNORECASE)
        if match:
            return name, text[match.end() :]
    return "", text


def sample(play: Search, call: Call, stream: Stream) -> str:
    """Return an action of the form asked for, of words that the worker was told.

    Most often it goes on: it opens a page that was found, else notes a cell with a value of the
    page that is open, else searches for one of its names, half the time with a column. Which page,
    cell and value is chance.
    """
    start, cells, pick = play.start, missing(play, call), stream.uniform(0)
    if pick < 0.05:
        return DONE
    if pick < 0.55 and cells:
        item, column = cells[stream.integer(1, len(cells))]
        page = pages(play)[call.open].text
        values = [line.partition(": ")[2] for line in page.splitlines() if ": " in line]
        if values:
            value = values[stream.integer(2, len(values))]
            return f"{NOTE} {start.names[item]} | {start.columns[column]} | {value}"
    if pick < 0.8 and call.found:
        return f"{OPEN} {1 + stream.integer(1, len(call.found))}"
    words = start.names[call.items[stream.integer(1, len(call.items))]]
    if stream.uniform(2) < 0.5:
        words = f"{words} {start.columns[stream.integer(3, len(start.columns))]}"
    return f"{SEARCH} {words}"


def came(play: Search, call: Call) -> str:
    """Return what a worker is told of its last action: pages, a page, or that a cell is noted."""
    word, brief, known = call.told[-1].split()[0], play.rules.brief, pages(play)
    if word == OPEN:
        text = known[call.open].text
        return f"page {text}" if brief else text
    if word == NOTE:
        return "noted" if brief else "Noted."
    dot = "" if brief else "."
    titles = [f"{place}{dot} {known[one].title}" for place, one in enumerate(call.found, start=1)]
    if brief:
        return " ".join(("found", *titles)) if titles else "nothing"
    return "\n".join(("Found:", *titles)) if titles else "Nothing was found."


def forms(columns: tuple[str, ...], fresh: bool) -> str:
    """Return the forms of a worker's replies, in full style; they are said once."""
    if not fresh:
        return "Reply search, open, note or done."
    return (
        "Reply with one line: search WORDS to find pages, open N to read one of those found, "
        f"note NAME | {columns[0]} | VALUE to note a cell, or done."
    )

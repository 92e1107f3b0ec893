"""What the workers of a search say and do: they open pages, and note cells.

Pages are found by the names of rows or by their words. In brief style a worker chooses from a list;
in full style it may say anything where pages are found by words, and the first line that is a
command it can follow is its action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sparring.core.rng import Stream
from sparring.environments.wide_search.library import Page, find, library
from sparring.environments.wide_search.world import VALUES, World

SEARCH, OPEN, NOTE, DONE = "search", "open", "note", "done"
QUERY, VALUE = 200, 100  # characters of a query, and of a value, that are read
BETWEEN = " \t|,:;=\"'`*"  # what may stand around the parts of a note
_LINE = re.compile(r"[\W_]*(search|open|note|done)\b[ \t:]*(.*)", re.IGNORECASE)
_NUMBER = re.compile(r"\W{0,3}(\d{1,3})(?!\d)", re.ASCII)


Cell = tuple[int, int]  # number of the row, number of the column


@dataclass(frozen=True, slots=True)
class Call:
    """What a worker was called for, and how far it is.

    Args:
        items: rows that it is to find.
        left: turns.
        open: the page that it reads, -1 before the first: the number of its row or, where pages
            are searched by words, of the page.
        told: its conversation since the call.
        found: pages that its last search has found.
    """

    items: tuple[int, ...]
    left: int
    open: int = -1
    told: tuple[str, ...] = ()
    found: tuple[int, ...] = ()


class SharedNotes:
    """What all workers of a search read and note together.

    Attributes:
        start: the world.
        notes: value of each cell that was noted.
        by: seat that noted each cell.
        brief: whether in brief style.
        by_words: whether pages are found by words, else by the names of their rows.
        distractors: pages that do not help.
    """

    start: World
    notes: dict[Cell, str]
    by: dict[Cell, int]
    brief: bool
    by_words: bool
    distractors: int


def pages(play: SharedNotes) -> tuple[Page, ...]:
    """Return the pages of a play's world that are found by words."""
    return library(play.start, play.distractors, play.brief)


def actions(play: SharedNotes, call: Call) -> tuple[str, ...]:
    """Return what a worker may choose from."""
    start = play.start
    if not play.by_words:
        opened = (f"{OPEN} {start.names[item]}" for item in call.items if item != call.open)
        notes = (
            f"{NOTE} {name} {value}"
            for column, name in enumerate(start.columns)
            if call.open >= 0 and (call.open, column) not in play.notes
            for value in VALUES[name]
        )
        return (*opened, *notes, DONE)
    names = [start.names[item] for item in call.items]
    queries = (*names, *start.columns, *(f"{one} {two}" for one in names for two in start.columns))
    notes = (
        f"{NOTE} {start.names[item]} {name} {value}"
        for item, column in missing(play, call)
        for name in start.columns[column : column + 1]
        for value in VALUES[name]
    )
    opened = (f"{OPEN} {number}" for number in range(1, len(call.found) + 1))
    return (*(f"{SEARCH} {words}" for words in queries), *opened, *notes, DONE)


def missing(play: SharedNotes, call: Call) -> list[tuple[int, int]]:
    """Return the cells that a worker may note now: its own open ones, once it has read a page."""
    columns = range(len(play.start.columns)) if call.open >= 0 else ()
    return [(item, one) for item in call.items for one in columns if (item, one) not in play.notes]


def acted(play: SharedNotes, seat: int, call: Call, reply: str) -> Call:
    """Return a worker's call after an action; a value that it notes is kept by the play."""
    word, _, rest = reply.partition(" ")
    if word == SEARCH:
        return replace(call, found=find(pages(play), rest))
    if word == OPEN:
        number = call.found[int(rest) - 1] if play.by_words else play.start.names.index(rest)
        return replace(call, open=number)
    if word == NOTE:
        if play.by_words:
            noted = _noted(play, call, rest)
            assert noted is not None, "step() has read it"
            cell, value = noted
        else:
            column, value = rest.split()
            cell = call.open, play.start.columns.index(column)
        play.notes[cell], play.by[cell] = value, seat
    return call


def read(play: SharedNotes, call: Call, reply: str, exact: bool) -> str | None:
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


def _command(play: SharedNotes, call: Call, word: str, rest: str) -> str | None:
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


def _noted(play: SharedNotes, call: Call, rest: str) -> tuple[tuple[int, int], str] | None:
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


def sample(play: SharedNotes, call: Call, stream: Stream) -> str:
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


def came(play: SharedNotes, call: Call) -> str:
    """Return what a worker is told of its last action: pages, a page, or that a cell is noted."""
    word, brief = call.told[-1].split()[0], play.brief
    if word == NOTE:
        return "noted" if brief else "Noted."
    if not play.by_words:
        page, name = play.start.row(call.open), play.start.names[call.open]
        if brief:
            return f"page {name} {' '.join(f'{one} {value}' for one, value in page.items())}"
        said = "; ".join(f"{one}: {value}" for one, value in page.items())
        return f"The page of {name}. {said}."
    known = pages(play)
    if word == OPEN:
        text = known[call.open].text
        return f"page {text}" if brief else text
    dot = "" if brief else "."
    titles = [f"{place}{dot} {known[one].title}" for place, one in enumerate(call.found, start=1)]
    if brief:
        return " ".join(("found", *titles)) if titles else "nothing"
    return "\n".join(("Found:", *titles)) if titles else "Nothing was found."


def forms(columns: tuple[str, ...], fresh: bool, *, by_words: bool) -> str:
    """Return the forms of a worker's replies in full style; those by words are said once."""
    if not by_words:
        listed = "; ".join(f"{name} is one of {', '.join(VALUES[name])}" for name in columns)
        return (
            "Reply open NAME to read a page, note COLUMN VALUE to note a cell of the page that is "
            f"open, or done. Values: {listed}. For example: note {columns[0]} "
            f"{VALUES[columns[0]][0]}"
        )
    if not fresh:
        return "Reply search, open, note or done."
    return (
        "Reply with one line: search WORDS to find pages, open N to read one of those found, "
        f"note NAME | {columns[0]} | VALUE to note a cell, or done."
    )

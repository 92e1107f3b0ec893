"""Actions of the workers of a search: they search for pages, open pages, and note cells.

A worker opens pages by the names of rows, or after a search by words. In brief style it chooses
from a list. In full style with a search by words it may reply any text, and the first line that is
a command it can follow is its action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sparring.core.rng import Stream
from sparring.environments.wide_search.library import Page, find, library
from sparring.environments.wide_search.world import VALUES, World

SEARCH, OPEN, NOTE, DONE = "search", "open", "note", "done"
QUERY, VALUE = 200, 100  # most characters of a query, and of a value
BETWEEN = " \t|,:;=\"'`*"  # characters that may surround the parts of a note
_LINE = re.compile(r"[\W_]*(search|open|note|done)\b[ \t:]*(.*)", re.IGNORECASE)
_NUMBER = re.compile(r"\W{0,3}(\d{1,3})(?!\d)", re.ASCII)


Cell = tuple[int, int]  # number of the row, number of the column


@dataclass(frozen=True, slots=True)
class SearchCall:
    """The current call of a worker.

    Args:
        items: rows to find.
        turns: turns left.
        open: the open page, -1 before the first: the number of its row or, where pages are
            searched by words, of the page.
        log: prompts and replies since the call, in turn.
        results: pages of the last search.
    """

    items: tuple[int, ...]
    turns: int
    open: int = -1
    log: tuple[str, ...] = ()
    results: tuple[int, ...] = ()


class SharedNotes:
    """The pages and notes that all workers of a search share.

    Attributes:
        start: the world.
        notes: the noted value of each cell.
        by: the seat that noted each cell.
        brief: whether the style is brief.
        by_words: whether workers search for pages by words, else open them by the names of rows.
        distractors: pages that do not help.
    """

    start: World
    notes: dict[Cell, str]
    by: dict[Cell, int]
    brief: bool
    by_words: bool
    distractors: int


def pages(play: SharedNotes) -> tuple[Page, ...]:
    """Return the pages of the world for a search by words."""
    return library(play.start, play.distractors, play.brief)


def actions(play: SharedNotes, call: SearchCall) -> tuple[str, ...]:
    """Return the legal actions of a worker."""
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
    pairs = (f"{name} {column}" for name in names for column in start.columns)
    queries = (*names, *start.columns, *pairs)
    notes = (
        f"{NOTE} {start.names[item]} {name} {value}"
        for item, column in missing(play, call)
        for name in start.columns[column : column + 1]
        for value in VALUES[name]
    )
    opened = (f"{OPEN} {number}" for number in range(1, len(call.results) + 1))
    return (*(f"{SEARCH} {words}" for words in queries), *opened, *notes, DONE)


def missing(play: SharedNotes, call: SearchCall) -> list[tuple[int, int]]:
    """Return the cells that a worker may note: its empty cells, once it has read a page."""
    columns = range(len(play.start.columns)) if call.open >= 0 else ()
    cells = ((item, column) for item in call.items for column in columns)
    return [cell for cell in cells if cell not in play.notes]


def after_action(play: SharedNotes, seat: int, call: SearchCall, reply: str) -> SearchCall:
    """Return a worker's call after an action; a note also goes into the shared notes."""
    word, _, argument = reply.partition(" ")
    if word == SEARCH:
        return replace(call, results=find(pages(play), argument))
    if word == OPEN:
        number = (
            call.results[int(argument) - 1] if play.by_words else play.start.names.index(argument)
        )
        return replace(call, open=number)
    if word == NOTE:
        if play.by_words:
            noted = _noted(play, call, argument)
            assert noted is not None, "step() has read it"
            cell, value = noted
        else:
            column, value = argument.split()
            cell = call.open, play.start.columns.index(column)
        play.notes[cell], play.by[cell] = value, seat
    return call


def read_action(play: SharedNotes, call: SearchCall, reply: str, exact: bool) -> str | None:
    """Return the first action in a reply that a worker can follow now, in normal form, or None.

    Args:
        play: the search.
        call: the call of the worker.
        reply: any text; an action begins a line.
        exact: whether the reply must be the action only.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    if exact and len(lines) != 1:
        return None
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        action = match and _command(play, call, match[1].lower(), match[2].strip())
        if action:
            return action
    return None


def _command(play: SharedNotes, call: SearchCall, word: str, text: str) -> str | None:
    """Return an action in normal form; None if the worker cannot follow it now."""
    if word == DONE:
        return None if re.search(r"\w", text) else DONE
    if word == SEARCH:
        words = " ".join(text.split())[:QUERY].strip(BETWEEN)
        return f"{SEARCH} {words}" if re.search(r"[^\W_]", words) else None
    if word == OPEN:
        number = _NUMBER.match(text)
        is_result = number is not None and 1 <= int(number[1]) <= len(call.results)
        return f"{OPEN} {int(number[1])}" if is_result and number else None
    noted = _noted(play, call, text)
    if noted is None:
        return None
    (item, column), value = noted
    return f"{NOTE} {play.start.names[item]} | {play.start.columns[column]} | {value}"


def _noted(play: SharedNotes, call: SearchCall, text: str) -> tuple[tuple[int, int], str] | None:
    """Return (cell, value) of a note; None if the worker may not note the cell now."""
    start, cells = play.start, missing(play, call)
    items = {start.names[item]: item for item, _ in cells}
    name, text = _begins(text, items)
    columns = {start.columns[number]: number for item, number in cells if item == items.get(name)}
    column, text = _begins(text, columns)
    value = " ".join(text.strip(BETWEEN).replace("|", "/").split())[:VALUE].strip(BETWEEN)
    return ((items[name], columns[column]), value) if column and value else None


def _begins(text: str, names: dict[str, int]) -> tuple[str, str]:
    """Return (longest name that a text begins with or "", rest of the text)."""
    text = text.strip(BETWEEN)
    for name in sorted(names, key=len, reverse=True):
        match = re.match(rf"{re.escape(name)}(?!\w)", text, re.IGNORECASE)
        if match:
            return name, text[match.end() :]
    return "", text


def sample(play: SharedNotes, call: SearchCall, stream: Stream) -> str:
    """Return a random action in the required form, made of words in the worker's prompts.

    The action mostly makes progress: note a cell with a value of the open page, open a page of the
    last search, or search for a name, half the time with a column. The page, the cell and the value
    are random.
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
    if pick < 0.8 and call.results:
        return f"{OPEN} {1 + stream.integer(1, len(call.results))}"
    words = start.names[call.items[stream.integer(1, len(call.items))]]
    if stream.uniform(2) < 0.5:
        words = f"{words} {start.columns[stream.integer(3, len(start.columns))]}"
    return f"{SEARCH} {words}"


def result_text(play: SharedNotes, call: SearchCall) -> str:
    """Return the result of a worker's last action: pages, a page, or a confirmation."""
    word, brief = call.log[-1].split()[0], play.brief
    if word == NOTE:
        return "noted" if brief else "Noted."
    if not play.by_words:
        page, name = play.start.row(call.open), play.start.names[call.open]
        if brief:
            return f"page {name} {' '.join(f'{column} {value}' for column, value in page.items())}"
        facts = "; ".join(f"{column}: {value}" for column, value in page.items())
        return f"The page of {name}. {facts}."
    results = pages(play)
    if word == OPEN:
        text = results[call.open].text
        return f"page {text}" if brief else text
    dot = "" if brief else "."
    numbered = enumerate(call.results, start=1)
    titles = [f"{place}{dot} {results[page].title}" for place, page in numbered]
    if brief:
        return " ".join(("found", *titles)) if titles else "nothing"
    return "\n".join(("Found:", *titles)) if titles else "Nothing was found."


def forms(columns: tuple[str, ...], fresh: bool, *, by_words: bool) -> str:
    """Return the forms of a worker's replies in full style, shorter after the first prompt."""
    if not by_words:
        values = "; ".join(f"{name} is one of {', '.join(VALUES[name])}" for name in columns)
        return (
            "Reply open NAME to read a page, note COLUMN VALUE to note a cell of the page that is "
            f"open, or done. Values: {values}. For example: note {columns[0]} "
            f"{VALUES[columns[0]][0]}"
        )
    if not fresh:
        return "Reply search, open, note or done."
    return (
        "Reply with one line: search WORDS to find pages, open N to read one of those found, "
        f"note NAME | {columns[0]} | VALUE to note a cell, or done."
    )

"""Actions of the workers of ``wide_search``: search for pages, open pages, and note cells.

A worker opens pages by the names of rows, or after a search by words. In brief style the worker
chooses from a list of actions. In full style with a search by words any reply is allowed, and the
first line with a legal command is the action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sparring.core.rng import Stream
from sparring.environments.wide_search.library import Page, find_pages, library
from sparring.environments.wide_search.world import VALUES, World

SEARCH, OPEN, NOTE, DONE = "search", "open", "note", "done"
MAX_QUERY_CHARS, MAX_VALUE_CHARS = 200, 100
SEPARATORS = " \t|,:;=\"'`*"  # characters that may surround the fields of a note
_COMMAND_LINE = re.compile(r"[\W_]*(search|open|note|done)\b[ \t:]*(.*)", re.IGNORECASE)
_NUMBER = re.compile(r"\W{0,3}(\d{1,3})(?!\d)", re.ASCII)


Cell = tuple[int, int]  # number of the row, number of the column


@dataclass(frozen=True, slots=True)
class SearchCall:
    """The current call of a worker.

    Args:
        rows: numbers of the rows to complete.
        turns: number of turns left.
        open_page: index of the open page, -1 if no page is open. This is the index of a row or, if
            workers search by words, an index in ``pages``.
        log: prompts and replies since the call, alternating.
        results: indices of the pages that the last search found.
    """

    rows: tuple[int, ...]
    turns: int
    open_page: int = -1
    log: tuple[str, ...] = ()
    results: tuple[int, ...] = ()


class SharedNotes:
    """The pages and notes that all workers of a search share.

    Attributes:
        start: the world.
        notes: the noted value of each cell.
        noted_by: the seat that noted each cell.
        brief: whether the style is brief.
        by_words: whether workers search for pages by words; False: they open pages by name.
        distractors: number of irrelevant pages.
    """

    start: World
    notes: dict[Cell, str]
    noted_by: dict[Cell, int]
    brief: bool
    by_words: bool
    distractors: int


def pages(play: SharedNotes) -> tuple[Page, ...]:
    """Return the pages of the world for a search by words."""
    return library(play.start, play.distractors, play.brief)


def actions(play: SharedNotes, call: SearchCall) -> tuple[str, ...]:
    """Return the legal actions of a worker."""
    world = play.start
    if not play.by_words:
        open_actions = (f"{OPEN} {world.names[row]}" for row in call.rows if row != call.open_page)
        note_actions = (
            f"{NOTE} {name} {value}"
            for column, name in enumerate(world.columns)
            if call.open_page >= 0 and (call.open_page, column) not in play.notes
            for value in VALUES[name]
        )
        return (*open_actions, *note_actions, DONE)
    names = [world.names[row] for row in call.rows]
    pairs = (f"{name} {column}" for name in names for column in world.columns)
    queries = (*names, *world.columns, *pairs)
    note_actions = (
        f"{NOTE} {world.names[row]} {name} {value}"
        for row, column in noteable_cells(play, call)
        for name in world.columns[column : column + 1]
        for value in VALUES[name]
    )
    open_actions = (f"{OPEN} {number}" for number in range(1, len(call.results) + 1))
    return (*(f"{SEARCH} {query}" for query in queries), *open_actions, *note_actions, DONE)


def noteable_cells(play: SharedNotes, call: SearchCall) -> list[tuple[int, int]]:
    """Return the cells that a worker may note: its empty cells, after it opened a page."""
    columns = range(len(play.start.columns)) if call.open_page >= 0 else ()
    cells = ((row, column) for row in call.rows for column in columns)
    return [cell for cell in cells if cell not in play.notes]


def apply_action(play: SharedNotes, seat: int, call: SearchCall, reply: str) -> SearchCall:
    """Apply an action and return the worker's new call; add a note to the shared notes."""
    command, _, argument = reply.partition(" ")
    if command == SEARCH:
        return replace(call, results=find_pages(pages(play), argument))
    if command == OPEN:
        page_index = (
            call.results[int(argument) - 1] if play.by_words else play.start.names.index(argument)
        )
        return replace(call, open_page=page_index)
    if command == NOTE:
        if play.by_words:
            note = _parse_note(play, call, argument)
            assert note is not None, "step() accepts only valid notes"
            cell, value = note
        else:
            column, value = argument.split()
            cell = call.open_page, play.start.columns.index(column)
        play.notes[cell], play.noted_by[cell] = value, seat
    return call


def read_action(play: SharedNotes, call: SearchCall, reply: str, exact: bool) -> str | None:
    """Return the first legal action in a reply, in normal form; None if there is no such action.

    Args:
        play: the episode.
        call: the call of the worker.
        reply: any text; an action is at the beginning of a line.
        exact: whether the reply must be the action only.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    if exact and len(lines) != 1:
        return None
    for line in lines:
        match = _COMMAND_LINE.fullmatch(line.strip())
        action = match and _parse_command(play, call, match[1].lower(), match[2].strip())
        if action:
            return action
    return None


def _parse_command(play: SharedNotes, call: SearchCall, command: str, text: str) -> str | None:
    """Return an action in normal form; None if it is illegal now."""
    if command == DONE:
        return None if re.search(r"\w", text) else DONE
    if command == SEARCH:
        query = " ".join(text.split())[:MAX_QUERY_CHARS].strip(SEPARATORS)
        return f"{SEARCH} {query}" if re.search(r"[^\W_]", query) else None
    if command == OPEN:
        number = _NUMBER.match(text)
        is_result = number is not None and 1 <= int(number[1]) <= len(call.results)
        return f"{OPEN} {int(number[1])}" if is_result and number else None
    note = _parse_note(play, call, text)
    if note is None:
        return None
    (row, column), value = note
    return f"{NOTE} {play.start.names[row]} | {play.start.columns[column]} | {value}"


def _parse_note(play: SharedNotes, call: SearchCall, text: str) -> tuple[Cell, str] | None:
    """Return (cell, value) of a note; None if the worker may not note the cell now."""
    world, cells = play.start, noteable_cells(play, call)
    rows = {world.names[row]: row for row, _ in cells}
    name, text = _split_name(text, rows)
    columns = {world.columns[column]: column for row, column in cells if row == rows.get(name)}
    column_name, text = _split_name(text, columns)
    value = " ".join(text.strip(SEPARATORS).replace("|", "/").split())
    value = value[:MAX_VALUE_CHARS].strip(SEPARATORS)
    return ((rows[name], columns[column_name]), value) if column_name and value else None


def _split_name(text: str, names: dict[str, int]) -> tuple[str, str]:
    """Return (the longest name at the beginning of a text, or ""; the remaining text)."""
    text = text.strip(SEPARATORS)
    for name in sorted(names, key=len, reverse=True):
        match = re.match(rf"{re.escape(name)}(?!\w)", text, re.IGNORECASE)
        if match:
            return name, text[match.end() :]
    return "", text


def sample(play: SharedNotes, call: SearchCall, stream: Stream) -> str:
    """Return a random action in the required form, made of words in the worker's prompts.

    Most actions make progress: a note of a random cell with a random value of the open page, a
    random page of the last search, or a search for a name, half of the time with a column.
    """
    world, cells, draw = play.start, noteable_cells(play, call), stream.uniform(0)
    if draw < 0.05:
        return DONE
    if draw < 0.55 and cells:
        row, column = cells[stream.integer(1, len(cells))]
        page = pages(play)[call.open_page].text
        values = [line.partition(": ")[2] for line in page.splitlines() if ": " in line]
        if values:
            value = values[stream.integer(2, len(values))]
            return f"{NOTE} {world.names[row]} | {world.columns[column]} | {value}"
    if draw < 0.8 and call.results:
        return f"{OPEN} {1 + stream.integer(1, len(call.results))}"
    query = world.names[call.rows[stream.integer(1, len(call.rows))]]
    if stream.uniform(2) < 0.5:
        query = f"{query} {world.columns[stream.integer(3, len(world.columns))]}"
    return f"{SEARCH} {query}"


def result_text(play: SharedNotes, call: SearchCall) -> str:
    """Return the text of the result of a worker's last action: titles, a page, or "noted"."""
    command, brief = call.log[-1].split()[0], play.brief
    if command == NOTE:
        return "noted" if brief else "Noted."
    if not play.by_words:
        values, name = play.start.row(call.open_page), play.start.names[call.open_page]
        if brief:
            return (
                f"page {name} {' '.join(f'{column} {value}' for column, value in values.items())}"
            )
        facts = "; ".join(f"{column}: {value}" for column, value in values.items())
        return f"The page of {name}. {facts}."
    library_pages = pages(play)
    if command == OPEN:
        text = library_pages[call.open_page].text
        return f"page {text}" if brief else text
    dot = "" if brief else "."
    numbered_results = enumerate(call.results, start=1)
    titles = [f"{rank}{dot} {library_pages[page].title}" for rank, page in numbered_results]
    if brief:
        return " ".join(("found", *titles)) if titles else "nothing"
    return "\n".join(("Found:", *titles)) if titles else "Nothing was found."


def reply_forms(columns: tuple[str, ...], is_first_prompt: bool, *, by_words: bool) -> str:
    """Return the part of a full-style prompt that says how a worker may reply."""
    if not by_words:
        values = "; ".join(f"{name} is one of {', '.join(VALUES[name])}" for name in columns)
        return (
            "Reply open NAME to read a page, note COLUMN VALUE to note a cell of the page that is "
            f"open, or done. Values: {values}. For example: note {columns[0]} "
            f"{VALUES[columns[0]][0]}"
        )
    if not is_first_prompt:
        return "Reply search, open, note or done."
    return (
        "Reply with one line: search WORDS to find pages, open N to read one of those found, "
        f"note NAME | {columns[0]} | VALUE to note a cell, or done."
    )

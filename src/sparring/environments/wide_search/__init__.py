"""A lead that calls workers, who search for the cells of a table at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.wide_search.rules import WideSearch
from sparring.environments.wide_search.world import COLUMNS, NAMES
from sparring.errors import ConfigError


def wide_search(
    *,
    items: Annotated[int, Field(ge=1, le=len(NAMES))] = 8,
    columns: Annotated[int, Field(ge=1, le=len(COLUMNS))] = 2,
    workers: Annotated[int, Field(ge=0, le=16)] = 4,
    turns: Annotated[int, Field(ge=1, le=1000)] = 6,
    waves: Annotated[int, Field(ge=1, le=100)] = 2,
    critical: Annotated[int, Field(ge=0, le=100_000)] = 0,
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000,
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
    style: Literal["brief", "full"] = "brief",
    search: Literal["names", "words"] = "names",
    distractors: Annotated[int, Field(ge=0, le=1000)] = 0,
    answer: Literal["merged", "written"] = "merged",
    tables: Literal["invented", "countries", "elements", "airports"] = "invented",
) -> WideSearch:
    """A table is to be found: a lead calls workers, who read pages at once and note cells.

    What: a world of things with invented names has a page on each. The lead says how many workers
    it calls; the rows that lack a cell are shared out among them evenly, and they search at once.
    A worker begins a fresh conversation at every call, opens pages, notes values and is done, or
    has no turns left. Then the lead is told how many cells are noted, and calls again or finishes.
    The table that the notes make is the answer.

    With ``search: words`` pages are found in full text, three a search at most, best first: a page
    on each thing, one for each value that lists what has it, and ``distractors``. A worker says
    ``search ardan colour``, ``open 2``, ``note ardan colour red``, ``done``; in full style any
    text, of which the first line that is such a command and can be followed is its action. With
    ``answer: written`` the lead is told what was noted and, when the search is over, writes the
    table, in any text: markdown in full style, ``ardan red ; bemir -`` in brief style. With
    ``tables`` a question of a real table takes the place of the invented world: all countries whose
    subregion is Western Europe, with these columns.
    When to use: to train teams whose size is theirs to choose (WideSeek-R1; Agent Swarm, with the
    workers frozen), and to compare them with one agent that does all of it alone: ``workers: 0``
    has one seat, with ``turns`` turns in all.
    Mathematics: the return of every seat is item F1, of E true rows, M rows of the answer and A
    columns beside the name:

        TP = sum over rows of the answer of 1 + its right cells
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

        critical steps = the lead's turns + sum over waves of the turns of its slowest worker

    Case, white space and commas between thousands do not count where cells are compared.

    Figures: item_f1, precision, recall, non_key_f1, row_f1, success, waves, width (of the widest
    wave), critical_steps, total_steps, called (how often a worker was), finished (calls of a worker
    that noted a right cell), parallel (width as a share of what it may be, from 0 for one worker),
    finished_share (of the calls), and found, the right cells that each seat noted; with
    ``answer: written`` also malformed, 1 for an answer that is no such table, which scores 0.
    Pitfalls: names of found rows count as right cells, so that a row with wrong values is still
    worth something; non_key_f1 leaves names out. Two workers never have the same row, so that they
    cannot disagree, and they are told its name: names are never searched for. The lead sees no
    cell unless it writes the answer, so it decides by numbers alone. What real tables hold a model
    may know by heart, and is that of the package's version. Of their filters one in five is kept
    for banks from 2^30 on, on which skill is measured; a row may pass filters of both kinds.
    Reference: WideSeek-R1 (arXiv 2602.04634); Kimi K2.5's critical steps (arXiv 2602.02276).
    Verified by: tests/environments/test_wide_search.py.

    Args:
        items: rows of the table, 1 to 48; of a real one the most, at least 4.
        columns: cells of a row beside its name, 1 to 4: colour, size, food, place.
        workers: most workers of a call, 0 to 16; 0: one seat, "single", works alone.
        turns: of a worker at each call, 1 to 1000. A row takes one turn to open and one for each
            cell, and with ``search: words`` one more to search.
        waves: calls of the lead, 1 to 100.
        critical: critical steps after which the search ends; 0 (default): no limit.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another one has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
        search: "names" (default): a worker opens the pages of its rows by their names. "words": it
            searches for pages by words.
        distractors: pages that do not help, 0 to 1000, where search is "words": news that names two
            things; of a real table, pages on other rows.
        answer: "merged" (default): the table that the notes make. "written": one that the lead
            writes; alone, the one seat.
        tables: "invented" (default), or a real table: "countries", "elements" or "airports", which
            want the extra ``tables``, style "full" and search "words".

    Raises:
        ConfigError: options that do not go together, or a package of ``tables`` that is missing or
            broken.
    """
    if distractors and search == "names":
        raise ConfigError(
            f"wide_search: distractors={distractors} are pages that a search by words may find; "
            "write search=words, or distractors=0."
        )
    if tables != "invented" and (style, search) != ("full", "words"):
        raise ConfigError(
            f"wide_search: tables={tables} has too many values to choose from; write style=full "
            "and search=words, or tables=invented."
        )
    return WideSearch(
        items=items,
        columns=columns,
        workers=workers,
        turns=turns,
        waves=waves,
        critical=critical,
        worlds=worlds,
        bank=bank,
        style=style,
        search=search,
        distractors=distractors,
        answer=answer,
        tables=tables,
    )

"""A lead that calls workers, who search for the cells of a table at once: rules."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.waves import FIGURES
from sparring.environments.wide_search import wording
from sparring.environments.wide_search.library import RESULTS
from sparring.environments.wide_search.play import LEAD, Search
from sparring.environments.wide_search.scoring import Score
from sparring.environments.wide_search.tables import questions
from sparring.environments.wide_search.world import COLUMNS, NAMES, VALUES, World, real_world, world

ALONE = "single"
MOST_OPENINGS = 1000  # worlds of which exact figures are made
SCORED = tuple(field.name for field in fields(Score))


@dataclass(kw_only=True, eq=False)
class WideSearch(Bank):
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

    items: Annotated[int, Field(ge=1, le=len(NAMES))] = 8
    columns: Annotated[int, Field(ge=1, le=len(COLUMNS))] = 2
    workers: Annotated[int, Field(ge=0, le=16)] = 4
    turns: Annotated[int, Field(ge=1, le=1000)] = 6
    waves: Annotated[int, Field(ge=1, le=100)] = 2
    critical: Annotated[int, Field(ge=0, le=100_000)] = 0
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"
    search: Literal["names", "words"] = "names"
    distractors: Annotated[int, Field(ge=0, le=1000)] = 0
    answer: Literal["merged", "written"] = "merged"
    tables: Literal["invented", "countries", "elements", "airports"] = "invented"

    name, counted = "wide_search", "worlds"
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, True

    def __post_init__(self) -> None:
        search, answer, tables = self.search, self.answer, self.tables
        if self.distractors and search == "names":
            raise ConfigError(
                f"wide_search: distractors={self.distractors} are pages that a search by words may "
                "find; write search=words, or distractors=0."
            )
        if tables != "invented" and (self.style, search) != ("full", "words"):
            raise ConfigError(
                f"wide_search: tables={tables} has too many values to choose from; write "
                "style=full and search=words, or tables=invented."
            )
        self.brief, workers = self.style == "brief", self.workers
        self.figures: tuple[str, ...] = (*SCORED, *FIGURES, "found")
        self.roles = (
            ("lead", *(f"worker {number}" for number in range(1, workers + 1)))
            if workers
            else (ALONE,)
        )
        self.num_seats = len(self.roles)
        turns = self.turns
        self.max_turns = self.waves * (1 + workers * turns) + 1 if workers else turns
        self.by_words = search == "words"
        self.free, self.writes = self.by_words and not self.brief, answer == "written"
        self.max_turns += self.writes
        if self.writes:
            self.figures = (*self.figures, "malformed")
        self.invented = tables == "invented"
        if not self.invented:
            questions(tables, self.items, False)  # refused at once where there are none

    def leads(self, seat: int) -> bool:
        """Return whether a seat calls workers, and searches nothing itself."""
        return seat == LEAD and self.workers > 0

    def start(self, number: int) -> World:
        """Return a world of the bank."""
        stream = self.bank_stream(number)
        if self.invented:
            return world(stream, self.items, self.columns)
        other = self.bank >= BANKS // 2
        return real_world(stream, self.tables, self.items, self.columns, other)

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief wording."""
        most = max(
            self.items * self.columns, self.turns, self.waves, self.workers, self.distractors
        )
        most = max(most, RESULTS * self.by_words)
        more = {*(wording.SEARCHED * self.by_words), *(wording.WRITTEN * self.writes)}
        values = {value for own in VALUES.values() for value in own}
        numbers = map(str, range(most + 1))
        return tuple(sorted({*wording.WORDS, *more, *NAMES, *VALUES, *values, *numbers}))

    def openings(self) -> tuple[tuple[float, Search], ...]:
        """Return a play of every world of the bank, all equally likely; for exact figures.

        Raises:
            TooLargeError: the bank has too many of them.
        """
        if self.worlds > MOST_OPENINGS:
            raise TooLargeError(
                f"wide_search: exact figures are for at most {MOST_OPENINGS} worlds and the bank "
                f"has {self.worlds:,}; write worlds: 4, with few items and turns."
            )
        found = (self.start(number) for number in range(self.worlds))
        return tuple((1 / self.worlds, Search(self, one)) for one in found)

    def reset(self, stream: Stream) -> Search:
        """Return a play of a world of the bank."""
        found = self.drawn(stream)
        assert isinstance(found, World)
        return Search(self, found)

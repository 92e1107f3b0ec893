"""A lead that calls workers, who search for the cells of a table at once: rules."""

from __future__ import annotations

from dataclasses import fields

from sparring.environments.bank import BANKS, Bank
from sparring.environments.waves import FIGURES
from sparring.environments.wide_search import wording
from sparring.environments.wide_search.library import RESULTS
from sparring.environments.wide_search.play import LEAD, Search
from sparring.environments.wide_search.scoring import Score
from sparring.environments.wide_search.tables import questions
from sparring.environments.wide_search.world import NAMES, VALUES, World, real_world, world
from sparring.errors import TooLargeError
from sparring.rng import Stream

ALONE = "single"
MOST_OPENINGS = 1000  # worlds of which exact figures are made
SCORED = tuple(field.name for field in fields(Score))


class WideSearch(Bank):
    """Rules and wording.

    Attributes:
        items: rows of the table; of a real one, the most.
        columns: of it, beside the name.
        workers: how many; 0: one seat does all of it alone.
        turns: of a worker at each call; alone, of the whole play.
        waves: calls of the lead.
        critical: critical steps after which the search ends; 0: no limit.
        by_words: whether pages are searched by words, and not opened by the names of rows.
        free: whether a worker may say any text.
        distractors: pages that lead nowhere.
        writes: whether the lead, or the one seat, writes the table at the end.
        tables: what is searched: "invented", or the kind of a real table.
    """

    name, counted = "wide_search", "worlds"
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, True
    figures: tuple[str, ...] = (*SCORED, *FIGURES, "found")

    def __init__(
        self,
        *,
        items: int,
        columns: int,
        workers: int,
        turns: int,
        waves: int,
        critical: int,
        worlds: int,
        bank: int,
        style: str,
        search: str,
        distractors: int,
        answer: str,
        tables: str,
    ) -> None:
        self.items, self.columns, self.workers = items, columns, workers
        self.turns, self.waves, self.critical = turns, waves, critical
        self.worlds, self.bank, self.style, self.brief = worlds, bank, style, style == "brief"
        self.roles = (
            ("lead", *(f"worker {number}" for number in range(1, workers + 1)))
            if workers
            else (ALONE,)
        )
        self.num_seats = len(self.roles)
        self.max_turns = waves * (1 + workers * turns) + 1 if workers else turns
        self.by_words, self.distractors, self.tables = search == "words", distractors, tables
        self.free, self.writes = self.by_words and not self.brief, answer == "written"
        self.max_turns += self.writes
        if self.writes:
            self.figures = (*self.figures, "malformed")
        self.invented = tables == "invented"
        if not self.invented:
            questions(tables, items, False)  # refused at once where there are none

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

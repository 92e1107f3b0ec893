"""A scripted lead and scripted workers of ``wide_search``, with faults that can be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import innermost_seat
from sparring.environments.wide_search import CALL, FINISH, WideSearchPlay, searching
from sparring.environments.wide_search.library import Page
from sparring.environments.wide_search.scoring import format_table
from sparring.environments.wide_search.searching import DONE, NOTE, OPEN, SEARCH, SearchCall
from sparring.environments.wide_search.world import VALUES
from sparring.play.players.base import TextAgent

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(kw_only=True, eq=False)
class Searcher(TextAgent):
    """A scripted lead and scripted workers of ``wide_search``, with faults that can be set.

    What: the lead calls ``width`` workers as long as a row lacks a cell and a call is allowed. Then
    it finishes, or writes the noted cells if it must write the answer. A worker opens the pages of
    its rows in order and notes every cell. If pages are found by words, it first searches for each
    row's name and first column.
    When to use: as workers with known faults beside a lead that learns, as a lead beside workers
    that learn, and to measure how good a width is before training.
    Mathematics: without faults a worker with T turns and A columns completes floor(T / (1 + A))
    rows, or floor(T / (2 + A)) if it has to search, and begins the next one. With ``slips`` s a
    noted cell is right with probability 1 - s.
    Pitfalls: it plays only ``wide_search``. A search fails if three other pages have the same
    words. The lead never finishes before all cells are found. In real tables a slip notes another
    value of the same column; there are no slips in a column of equal values.
    Reference: frozen workers of Agent Swarm (arXiv 2602.02276), with faults that can be set.
    Verified by: tests/play/players/test_searchers.py.

    Args:
        width: number of workers that the lead calls at once, at most 16; 0 (default): all workers,
            but at most one for each open row.
        slips: probability that a worker notes a wrong value, in [0, 1]. Default 0.
        quits: probability that a worker stops, at each of its turns, in [0, 1]. Default 0.
    """

    width: Annotated[int, Field(ge=0, le=16)] = 0
    slips: Probability = 0.0
    quits: Probability = 0.0

    name = "searcher"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the next action of the lead or of a worker.

        Raises:
            GameError: the environment is not ``wide_search``.
        """
        play, seat = innermost_seat(state, seat)
        if not isinstance(play, WideSearchPlay):
            raise GameError(
                f"Agent 'searcher' plays only wide_search, not {type(play).__name__}; write "
                "random or scripted there."
            )
        if play.must_write:
            return format_table(play.noted_rows(), play.start, brief=play.rules.brief)
        if seat not in play.calls:
            limit = min(play.rules.workers, len(play.open_items()))
            return f"{CALL} {min(self.width or limit, limit)}" if limit else FINISH
        return self._choose_worker_action(play, seat, stream)

    def _choose_worker_action(self, play: WideSearchPlay, seat: int, stream: Stream) -> str:
        if stream.uniform(0) < self.quits:
            return DONE
        call, columns = play.calls[seat], range(play.rules.columns)
        pages = searching.pages(play) if play.rules.by_words else ()
        page = call.open_page
        item = pages[page].item if pages and page >= 0 else page
        for column in columns if item in call.rows else ():
            if (item, column) not in play.notes:
                return self._note_cell(play, (item, column), stream)
        for item in call.rows:
            if any((item, column) not in play.notes for column in columns):
                return self._find_page(play, call, pages, item)
        return DONE

    def _note_cell(self, play: WideSearchPlay, cell: tuple[int, int], stream: Stream) -> str:
        start, (item, column) = play.start, cell
        name, true_value = start.columns[column], start.values[item][column]
        column_values = VALUES.get(name) or sorted({row[column] for row in start.values})
        wrong_values = [value for value in column_values if value != true_value]
        is_slip = bool(wrong_values) and stream.uniform(1) < self.slips
        value = wrong_values[stream.integer(2, len(wrong_values))] if is_slip else true_value
        if not play.rules.by_words:
            return f"{NOTE} {name} {value}"
        separator = " " if play.rules.brief else " | "
        return f"{NOTE} {separator.join((start.names[item], name, value))}"

    def _find_page(
        self, play: WideSearchPlay, call: SearchCall, pages: tuple[Page, ...], item: int
    ) -> str:
        """Return the action that leads to the page of a row: open it, or search for its words."""
        start = play.start
        if not pages:
            return f"{OPEN} {start.names[item]}"
        for number, page in enumerate(call.results, start=1):
            if pages[page].item == item:
                return f"{OPEN} {number}"
        return f"{SEARCH} {start.names[item]} {start.columns[0]}"


searcher = Searcher

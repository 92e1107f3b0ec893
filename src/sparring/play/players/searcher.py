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
from sparring.environments.wide_search.scoring import written_table
from sparring.environments.wide_search.searching import DONE, NOTE, OPEN, SEARCH, SearchCall
from sparring.environments.wide_search.world import VALUES
from sparring.play.players.base import TextAgent

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(kw_only=True, eq=False)
class Searcher(TextAgent):
    """A scripted lead and scripted workers of ``wide_search``, with faults that can be set.

    What: as the lead it calls ``width`` workers as long as a row lacks a cell and a call is
    allowed, then finishes. As a worker it opens the pages of its rows in order and notes every
    cell; where pages are found by words it first searches for each row's name and first column.
    Where the lead writes the answer it writes the noted cells.
    When to use: as workers with known faults beside a lead that learns, as a lead beside workers
    that learn, and to measure the value of a width before training.
    Mathematics: without faults a worker of T turns, with A columns, finds floor(T / (1 + A)) rows
    and begins another, floor(T / (2 + A)) where it has to search; with ``slips`` s a noted cell is
    right with probability 1 - s.
    Pitfalls: it plays only ``wide_search``, and a search fails where three other pages have the
    same words. The lead never finishes before all cells are found. In real tables a slip is another
    value of the same column, so that it is always right if all rows have one value.
    Reference: frozen workers of Agent Swarm (arXiv 2602.02276), with faults that can be set.
    Verified by: tests/play/players/test_searchers.py.

    Args:
        width: workers that the lead calls, 0 to 16; 0 (default): as many as there are, one for each
            open row at most.
        slips: probability of noting another value than the page's, in [0, 1]. 0 by default.
        quits: probability of being done at each turn of a worker, in [0, 1]. 0 by default.
    """

    width: Annotated[int, Field(ge=0, le=16)] = 0
    slips: Share = 0.0
    quits: Share = 0.0

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
        if play.writing:
            return written_table(play.noted(), play.start, brief=play.rules.brief)
        if seat not in play.calls:
            limit = min(play.rules.workers, len(play.open_items()))
            return f"{CALL} {min(self.width or limit, limit)}" if limit else FINISH
        return self._work(play, seat, stream)

    def _work(self, play: WideSearchPlay, seat: int, stream: Stream) -> str:
        if stream.uniform(0) < self.quits:
            return DONE
        call, columns = play.calls[seat], range(play.rules.columns)
        pages = searching.pages(play) if play.rules.by_words else ()
        item = pages[call.open].item if pages and call.open >= 0 else call.open
        for column in columns if item in call.items else ():
            if (item, column) not in play.notes:
                return self._note(play, (item, column), stream)
        for item in call.items:
            if any((item, column) not in play.notes for column in columns):
                return self._seek(play, call, pages, item)
        return DONE

    def _note(self, play: WideSearchPlay, cell: tuple[int, int], stream: Stream) -> str:
        start, (item, column) = play.start, cell
        name, true_value = start.columns[column], start.values[item][column]
        others = VALUES.get(name) or sorted({row[column] for row in start.values})
        wrong_values = [value for value in others if value != true_value]
        slip = bool(wrong_values) and stream.uniform(1) < self.slips
        value = wrong_values[stream.integer(2, len(wrong_values))] if slip else true_value
        if not play.rules.by_words:
            return f"{NOTE} {name} {value}"
        between = " " if play.rules.brief else " | "
        return f"{NOTE} {between.join((start.names[item], name, value))}"

    def _seek(
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

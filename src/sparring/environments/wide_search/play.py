"""A lead that calls workers, who search for the cells of a table at once: one play."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

from sparring.core.errors import GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Closed
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.reply import listed_reply
from sparring.environments.waves import counted, critical_steps, total_steps
from sparring.environments.wide_search import answers, naming, searching, wording
from sparring.environments.wide_search.call import Call, Cell
from sparring.environments.wide_search.scoring import Score, plain, score
from sparring.environments.wide_search.world import World

if TYPE_CHECKING:
    from sparring.environments.wide_search.rules import WideSearch

LEAD = 0
FINISH, CALL = "finish", "call"
ROWS = 12  # of the table that are drawn


class Search(Painted):
    """One play.

    Attributes:
        start: the world.
        notes: value of each cell that was noted.
        by: seat that noted each cell.
        asked: how many cells each seat that was called was to find, over all calls.
        calls: workers that are at work, by seat.
        waves: of each wave the steps that each of its workers took, in order of their seats.
        ended: whether it is over.
        said: what the lead was told after each wave.
        heard: how many of these it has answered.
        writing: whether the lead is to write the table now.
        written: what it wrote.
        past: the conversation of the one seat that works alone, once its search is over.
        ends: how the latest call of each seat that has worked has ended, by seat.
    """

    def __init__(self, rules: WideSearch, start: World) -> None:
        # all of these are replaced when they change, so that a copy may share them
        self.rules, self.start, self.ended = rules, start, False
        self.notes: dict[Cell, str] = {}
        self.by: dict[Cell, int] = {}
        self.asked: dict[int, int] = {}
        self.calls: dict[int, Call] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.spent: dict[int, int] = {}  # steps of the workers of this wave
        self.said: tuple[str, ...] = ()
        self.before = 0  # cells that were noted before this wave
        self.heard, self.writing, self.written = 0, False, ""
        self.past: tuple[str, ...] = ()
        self.ends: dict[int, Closed] = {}
        self.lead_steps = 0
        self.useful: frozenset[tuple[int, int]] = frozenset()  # wave and seat with a right cell
        if not rules.workers:
            self._begin({LEAD: tuple(self.open_items())})

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.ended

    @property
    def returns(self) -> tuple[float, ...]:
        """Item F1 of what was noted, for every seat; 0 before the end."""
        value = self.score.item_f1 if self.ended else 0.0
        return (value,) * self.rules.num_seats

    @property
    def answer(self) -> answers.Table | None:
        """The table that the notes make, or the one that was written; None: it is malformed."""
        if self.rules.writes:
            return answers.read(self.written, self.start, brief=self.rules.brief)
        return self.noted()

    def noted(self, first: int = 0) -> answers.Table:
        """Return the table that the notes make, without the first so many of them."""
        return self._table([*self.notes][first:])

    def _table(self, cells: Sequence[Cell]) -> answers.Table:
        """Return the table that the notes of these cells make."""
        found: answers.Table = {}
        for item, column in sorted(cells):
            row = found.setdefault(self.start.names[item], {})
            row[self.start.columns[column]] = self.notes[item, column]
        return found

    @property
    def score(self) -> Score:
        """How well the answer gives the table; a malformed one gives nothing."""
        return score(self.start.rows(), self.answer or {}, self.rules.columns)

    @property
    def critical_steps(self) -> int:
        """The lead's steps, and those of the slowest worker of each wave."""
        return critical_steps(self.lead_steps, (*self.waves, tuple(self.spent.values())))

    @property
    def total_steps(self) -> int:
        """The steps of all seats."""
        return total_steps(self.lead_steps, (*self.waves, tuple(self.spent.values())))

    @property
    def ways(self) -> ModuleType:
        """What workers may do and are told: as pages are found by name or by words."""
        return searching if self.rules.by_words else naming

    def closed(self, seat: int) -> Closed | None:
        """Return how a seat's latest conversation has ended; a lead without a call left: None."""
        return self.ends.get(seat) if self.ended or seat != LEAD else None

    def open_items(self, among: Sequence[int] | None = None) -> list[int]:
        """Return the rows that lack a cell, of these or of all."""
        rows, columns = range(len(self.start.names)), range(self.rules.columns)
        lacks = [any((row, column) not in self.notes for column in columns) for row in rows]
        return [row for row in (rows if among is None else among) if lacks[row]]

    def parts(self) -> tuple[int, ...]:
        """Return the seats that were called to find cells; none where the answer is written."""
        return () if self.rules.writes else tuple(sorted(self.asked))

    def worth(self, seats: Collection[int]) -> float:
        """Return item F1 of the table that the notes of these seats alone make."""
        cells = [cell for cell, seat in self.by.items() if seat in seats]
        return score(self.start.rows(), self._table(cells), self.rules.columns).item_f1

    def own_share(self, seat: int) -> float:
        """Return the right cells that a seat noted, over those that it was called for."""
        return self.figures()["found"][seat] / max(self.asked[seat], 1)

    def due(self) -> tuple[int, ...]:
        """Return the workers that are at work, else the lead."""
        if self.ended:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return what a seat may say, nothing where it is not due; None: any text."""
        if seat not in self.due():
            return ()
        if self.writing or (seat in self.calls and self.rules.free):
            return None
        if seat not in self.calls:
            most = min(self.rules.workers, len(self.open_items()))
            return (*(f"{CALL} {width}" for width in range(1, most + 1)), FINISH)
        found: tuple[str, ...] = self.ways.actions(self, self.calls[seat])
        return found

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply: a table is what was said, whatever it is."""
        legal = self.legal(seat)
        if legal is not None:
            return listed_reply(legal, reply, exact)
        if self.writing:
            return reply
        return searching.read(self, self.calls[seat], reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply of the form asked for, drawn at random, where any text is allowed."""
        if self.writing:
            return answers.sample(self, stream)
        return searching.sample(self, self.calls[seat], stream)

    def observe(self, seat: int) -> Observation:
        """Return what a seat has not been told; a worker's conversation begins at each call."""
        if seat in self.calls:
            return wording.worker(self, seat, self.calls[seat])
        if self.writing and seat == LEAD:
            return wording.writer(self)
        return wording.lead(self) if self.rules.leads(seat) else wording.idle(self, seat)

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the lead's reply, or with those of all workers that are at work."""
        for seat, reply in replies.items():
            legal = self.legal(seat)
            known = reply in legal if legal is not None else self.read(seat, reply, True)
            if known is False or known is None:
                raise GameError(f"wide_search: {quoted(reply)} is no action of seat {seat} now.")
        if self.writing:
            self._write(replies[LEAD])
        elif not self.calls:
            self._lead(replies[LEAD])
        else:
            self._work(replies)
        limit = self.rules.critical
        if limit and self.critical_steps >= limit and not (self.ended or self.writing):
            self._close()
            self._end()

    def _lead(self, reply: str) -> None:
        """Finish, or call workers for the open rows, shared out evenly in order."""
        self.lead_steps += 1
        self.heard = len(self.waves)
        if reply == FINISH:
            self.ends = {**self.ends, LEAD: "answered"}
            self._end()
            return
        width, items = int(reply.split()[1]), self.open_items()
        cuts = [len(items) * number // width for number in range(width + 1)]
        shares = enumerate(pairwise(cuts), start=1)
        self._begin({seat: tuple(items[begin:end]) for seat, (begin, end) in shares})

    def _begin(self, shares: Mapping[int, tuple[int, ...]]) -> None:
        """Begin a call of each of these seats."""
        columns = range(self.rules.columns)
        self.asked = dict(self.asked)
        for seat, items in shares.items():
            lacking = sum((one, column) not in self.notes for one in items for column in columns)
            self.asked[seat] = self.asked.get(seat, 0) + lacking
        self.calls = {seat: Call(items, self.rules.turns) for seat, items in shares.items()}
        self.ends = {seat: how for seat, how in self.ends.items() if seat not in shares}
        self.spent, self.before = dict.fromkeys(shares, 0), len(self.notes)

    def _end(self) -> None:
        """End the search: the play is over, or the lead is to write the table."""
        self.writing = self.rules.writes
        self.ended = not self.writing

    def _write(self, reply: str) -> None:
        """Take the table that was written."""
        self.lead_steps += 1
        self.written, self.writing, self.ended = reply, False, True
        self.ends = {**self.ends, LEAD: "malformed" if self.answer is None else "answered"}

    def _work(self, replies: Mapping[int, str]) -> None:
        """Let workers open pages, note cells, or end."""
        self.notes, self.by = dict(self.notes), dict(self.by)
        self.calls, self.spent = dict(self.calls), dict(self.spent)
        for seat, reply in sorted(replies.items()):
            seen = self.observe(seat).told
            said = (self.read(seat, reply, True) or reply) if self.rules.free else reply
            call = self.calls[seat]
            call = replace(call, left=call.left - 1, told=(*call.told, seen, said))
            self.spent[seat] += 1
            self.calls[seat] = call = self.ways.acted(self, seat, call, said)
            if said == searching.DONE or not call.left:
                short = said != searching.DONE and self.open_items(call.items)
                self.ends = {**self.ends, seat: "turns" if short else "answered"}
                del self.calls[seat]
                self.past = call.told if seat == LEAD else ()
        if not self.calls:
            self._close()
            if not self.rules.workers or len(self.waves) == self.rules.waves:
                self._end()

    def _close(self) -> None:
        """End a wave: the lead is told how many cells were noted."""
        if any(self.spent.values()):
            new = [*self.notes][self.before :]
            self.useful |= {(len(self.waves), self.by[one]) for one in new if self._is_right(one)}
            self.waves = (*self.waves, tuple(self.spent.values()))
            self.said = (*self.said, wording.back(self))
        alone = self.calls.get(LEAD)  # not yet done where the limit of critical steps is met
        self.past = alone.told if alone is not None else self.past
        self.ends = {**self.ends, **dict.fromkeys(self.calls, "limit")}
        self.calls, self.spent = {}, {}

    def _is_right(self, cell: Cell) -> bool:
        """Return whether what was noted of a cell is right."""
        return plain(self.notes[cell]) == plain(self.start.values[cell[0]][cell[1]])

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a play that is over: of the answer, and of the work."""
        seats = self.rules.num_seats
        work = counted(self.lead_steps, self.waves, len(self.useful), self.rules.workers)
        of_all: dict[str, float] = {**asdict(self.score), **work}
        right = [0.0] * seats
        for cell, seat in self.by.items():
            right[seat] += self._is_right(cell)
        if self.rules.writes:
            of_all["malformed"] = self.answer is None
        return {
            **{name: (float(value),) * seats for name, value in of_all.items()},
            "found": tuple(right),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the table as far as it is known, and who is at work."""
        rules, start, due = self.rules, self.start, self.due()
        seats(canvas, rules.roles, due if seat is None else tuple({seat} & {*due}))
        if seat is not None and not rules.leads(seat):
            _own(canvas, self, seat)
        elif seat is None:
            rows: list[tuple[str, ...]] = [("", *start.columns)]
            for item in range(min(len(start.names), ROWS)):
                cells = (_cell(self, item, column) for column in range(rules.columns))
                rows.append((start.names[item], *cells))
            heading(canvas, "Table", "noted / right")
            table(canvas, rows)
        if self.written and seat in (None, 0):
            heading(canvas, "Answer", "malformed" if self.answer is None else "")
            for line in self.written.splitlines()[:ROWS]:
                paragraph(canvas, line, most=2)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        """Return in words how far the search is."""
        rules = self.rules
        if seat is None:
            over = f" Item F1: {self.returns[0]:.3f}." if self.done else ""
            cells = f"Cells noted: {len(self.notes)} of {len(self.start.names) * rules.columns}."
            return f"{cells} Waves so far: {len(self.waves)}.{over}"
        if not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            names = ", ".join(self.start.names[item] for item in call.items)
            return f"{rules.roles[seat]} searches for {names}; {call.left} turns left."
        told = " ".join(self.said[-1].split()) if self.said else "No worker was called yet."
        return f"{told} Waves so far: {len(self.waves)}."

    def clone(self) -> Search:
        """Return an independent copy."""
        twin = object.__new__(Search)
        twin.__dict__.update(self.__dict__)
        return twin


def _own(canvas: Canvas, play: Search, seat: int) -> None:
    """Draw what a worker sees: its items, and the page that is open."""
    call = play.calls.get(seat)
    if call is not None:
        heading(canvas, "Items")
        paragraph(canvas, ", ".join(play.start.names[item] for item in call.items))
        if call.open >= 0:
            _page(canvas, play, call.open)


def _page(canvas: Canvas, play: Search, number: int) -> None:
    """Draw the page that is open."""
    if play.rules.by_words:
        page = searching.pages(play)[number]
        heading(canvas, page.title)
        for line in page.text.splitlines()[:ROWS]:
            paragraph(canvas, line, most=2)
        return
    row = play.start.row(number)
    heading(canvas, play.start.names[number])
    table(canvas, [tuple(row), tuple(row.values())])


def _cell(play: Search, item: int, column: int) -> str:
    """Return what was noted of a cell, and what is right where that is something else."""
    noted, right = play.notes.get((item, column)), play.start.values[item][column]
    if noted is None:
        return f"- / {right}"
    return noted if noted == right else f"{noted} / {right}"

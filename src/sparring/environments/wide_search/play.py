"""A lead that calls workers, who search for the cells of a table at once: one play."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.wide_search import picture, wording
from sparring.environments.wide_search.scoring import Score, score
from sparring.environments.wide_search.world import VALUES, World
from sparring.errors import GameError, quoted
from sparring.types import Observation

if TYPE_CHECKING:
    from sparring.environments.wide_search.rules import WideSearch

LEAD = 0
DONE, FINISH, CALL, OPEN, NOTE = "done", "finish", "call", "open", "note"
Cell = tuple[int, int]  # number of the row, number of the column


@dataclass(frozen=True, slots=True)
class Call:
    """What a worker was called for, and how far it is.

    Args:
        items: rows that it is to find.
        left: turns.
        open: the row whose page it reads, -1 before the first.
        told: its conversation since the call.
    """

    items: tuple[int, ...]
    left: int
    open: int = -1
    told: tuple[str, ...] = ()


class Search(Painted):
    """One play.

    Attributes:
        start: the world.
        notes: value of each cell that was noted.
        by: seat that noted each cell.
        asked: how many cells each seat that was called was to find, over all calls.
        calls: workers that are at work, by seat.
        waves: of each wave the steps that each of its workers took, in order of their seats.
        ended: whether the lead has finished, or may not go on.
        said: what the lead was told after each wave.
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
        self.lead_steps = 0
        if not rules.workers:
            self._begin({LEAD: tuple(range(rules.items))})

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
    def answer(self) -> dict[str, dict[str, str]]:
        """The table that the notes make."""
        found: dict[str, dict[str, str]] = {}
        for (item, column), value in sorted(self.notes.items()):
            row = found.setdefault(self.start.names[item], {})
            row[self.start.columns[column]] = value
        return found

    @property
    def score(self) -> Score:
        """How well the notes give the table."""
        return score(self.start.rows(), self.answer, self.rules.columns)

    @property
    def critical_steps(self) -> int:
        """The lead's steps, and those of the slowest worker of each wave."""
        waves = (*self.waves, tuple(self.spent.values()))
        return self.lead_steps + sum(max(own, default=0) for own in waves)

    @property
    def total_steps(self) -> int:
        """The steps of all seats."""
        return self.lead_steps + sum(map(sum, (*self.waves, self.spent.values())))

    def open_items(self) -> list[int]:
        """Return the rows that lack a cell."""
        columns = range(self.rules.columns)
        return [
            item
            for item in range(self.rules.items)
            if any((item, column) not in self.notes for column in columns)
        ]

    def _lacking(self, items: Sequence[int]) -> int:
        """Return how many cells of these rows are not noted."""
        columns = range(self.rules.columns)
        return sum((item, column) not in self.notes for item in items for column in columns)

    def parts(self) -> tuple[int, ...]:
        """Return the seats that were called to find cells, in order."""
        return tuple(sorted(self.asked))

    def worth(self, seats: Collection[int]) -> float:
        """Return item F1 of the table that the notes of these seats alone make."""
        found: dict[str, dict[str, str]] = {}
        for (item, column), value in self.notes.items():
            if self.by[item, column] in seats:
                found.setdefault(self.start.names[item], {})[self.start.columns[column]] = value
        return score(self.start.rows(), found, self.rules.columns).item_f1

    def own_share(self, seat: int) -> float:
        """Return the right cells that a seat noted, over those that it was called for."""
        return self.figures()["found"][seat] / max(self.asked[seat], 1)

    def due(self) -> tuple[int, ...]:
        """Return the workers that are at work, else the lead."""
        if self.ended:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return what a seat may say; nothing where it is not due."""
        if seat not in self.due():
            return ()
        if seat not in self.calls:
            most = min(self.rules.workers, len(self.open_items()))
            return (*(f"{CALL} {width}" for width in range(1, most + 1)), FINISH)
        start, call = self.start, self.calls[seat]
        pages = (f"{OPEN} {start.names[item]}" for item in call.items if item != call.open)
        cells = (
            f"{NOTE} {name} {value}"
            for column, name in enumerate(start.columns)
            if call.open >= 0 and (call.open, column) not in self.notes
            for value in VALUES[name]
        )
        return (*pages, *cells, DONE)

    def observe(self, seat: int) -> Observation:
        """Return what a seat has not been told; a worker's conversation begins at each call."""
        if seat in self.calls:
            return wording.worker(self, seat, self.calls[seat])
        return wording.lead(self) if self.rules.leads(seat) else wording.idle(self, seat)

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the lead's reply, or with those of all workers that are at work."""
        for seat, reply in replies.items():
            if reply not in self.legal(seat):
                raise GameError(f"wide_search: {quoted(reply)} is no action of seat {seat} now.")
        if not self.calls:
            self._lead(replies[LEAD])
        else:
            self._work(replies)
        limit = self.rules.critical
        if limit and self.critical_steps >= limit and not self.ended:
            self._close()
            self.ended = True

    def _lead(self, reply: str) -> None:
        """Finish, or call workers for the open rows, shared out evenly in order."""
        self.lead_steps += 1
        if reply == FINISH:
            self.ended = True
            return
        width, items = int(reply.split()[1]), self.open_items()
        cuts = [len(items) * number // width for number in range(width + 1)]
        shares = enumerate(pairwise(cuts), start=1)
        self._begin({seat: tuple(items[begin:end]) for seat, (begin, end) in shares})

    def _begin(self, shares: Mapping[int, tuple[int, ...]]) -> None:
        """Begin a call of each of these seats."""
        more = {seat: self.asked.get(seat, 0) + self._lacking(own) for seat, own in shares.items()}
        self.asked = {**self.asked, **more}

        turns = self.rules.turns
        self.calls = {seat: Call(items, turns) for seat, items in shares.items()}
        self.spent = dict.fromkeys(shares, 0)

    def _work(self, replies: Mapping[int, str]) -> None:
        """Let workers open pages, note cells, or end."""
        self.notes, self.by = dict(self.notes), dict(self.by)
        self.calls, self.spent = dict(self.calls), dict(self.spent)
        for seat, reply in sorted(replies.items()):
            seen = self.observe(seat).told
            call = self.calls[seat]
            call = replace(call, left=call.left - 1, told=(*call.told, seen, reply))
            self.spent[seat] += 1
            word, *rest = reply.split()
            if word == OPEN:
                call = replace(call, open=self.start.names.index(rest[0]))
            elif word == NOTE:
                cell = call.open, self.start.columns.index(rest[0])
                self.notes[cell], self.by[cell] = rest[1], seat
            self.calls[seat] = call
            if word == DONE or not call.left:
                del self.calls[seat]
        if not self.calls:
            self._close()
            self.ended = not self.rules.workers or len(self.waves) == self.rules.waves

    def _close(self) -> None:
        """End a wave: the lead is told how many cells were noted."""
        if any(self.spent.values()):
            self.waves = (*self.waves, tuple(self.spent.values()))
            self.said = (*self.said, wording.back(self))
        self.calls, self.spent = {}, {}

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a play that is over: of the answer, and of the work."""
        seats = self.rules.num_seats
        of_all = {
            **asdict(self.score),
            "waves": len(self.waves),
            "width": max(map(len, self.waves), default=0),
            "critical_steps": self.critical_steps,
            "total_steps": self.total_steps,
        }
        right = [0.0] * seats
        for (item, column), seat in self.by.items():
            right[seat] += self.notes[item, column] == self.start.values[item][column]
        return {
            **{name: (float(value),) * seats for name, value in of_all.items()},
            "found": tuple(right),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the table as far as it is known, and who is at work."""
        picture.paint(canvas, self, seat)

    def described(self, seat: int | None) -> str:
        """Return in words how far the search is."""
        return picture.describe(self, seat)

    def clone(self) -> Search:
        """Return an independent copy."""
        twin = object.__new__(Search)
        twin.__dict__.update(self.__dict__)
        return twin

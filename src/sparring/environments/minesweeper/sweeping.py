"""Best play of minesweeper against the layouts that may be there, by looking at every belief once.

Layouts and sets of cells are ints, one bit a cell. A belief is the layouts that agree with what is
seen, all equally likely (one may be among them twice), with the cells that are open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparring.environments.minesweeper.mines import Constraint

COUNT = 4  # bits of a number of mines around a cell


class LongSearchError(Exception):
    """A search met more beliefs than it may."""


def layouts_of(
    constraints: Sequence[Constraint], cells: Sequence[int], mines: int
) -> Iterator[int]:
    """Yield every layout that agrees with what is known.

    Args:
        constraints: groups of closed cells with the number of mines among them.
        cells: all closed cells, those of the constraints among them.
        mines: how many mines lie in all of them together.
    """
    groups = [*constraints, (tuple(cells), mines)]
    within = {
        cell: [number for number, (some, _) in enumerate(groups) if cell in some] for cell in cells
    }
    order = sorted(cells, key=lambda cell: (-len(within[cell]), cell))
    room, lacks = [len(some) for some, _ in groups], [count for _, count in groups]

    def place(at: int, mined: int) -> Iterator[int]:
        if any(not 0 <= lack <= free for lack, free in zip(lacks, room, strict=True)):
            return
        if at == len(order):
            yield mined
            return
        cell = order[at]
        for number in within[cell]:
            room[number] -= 1
        yield from place(at + 1, mined)
        for number in within[cell]:
            lacks[number] -= 1
        yield from place(at + 1, mined | 1 << cell)
        for number in within[cell]:
            room[number] += 1
            lacks[number] += 1

    yield from place(0, 0)


class Sweeper:
    """Best play by reveals alone.

    Values are sums over layouts, so integers: a layout counts 1 if it is cleared or, with
    ``share``, the cells open at the end.

    Args:
        layouts: those that may be there, each with the same number of mines.
        around: the cells around each cell.
        share: whether the game pays the share of the safe cells that are open.
        beliefs: how many beliefs may be looked at.
    """

    def __init__(
        self, layouts: Sequence[int], around: Sequence[Sequence[int]], share: bool, beliefs: int
    ) -> None:
        self.mined, self.around, self.share, self.most = list(layouts), around, share, beliefs
        self.every = (1 << len(around)) - 1
        near = [sum(1 << other for other in cells) for cells in around]
        self._counts = [[(mined & cells).bit_count() for cells in near] for mined in self.mined]
        self._shown = [
            sum(count << COUNT * cell for cell, count in enumerate(counts))
            for counts in self._counts
        ]
        self.safe = len(around) - (self.mined[0].bit_count() if self.mined else 0)
        self._opens: dict[tuple[int, int], int] = {}
        self._spread: dict[int, int] = {}
        self._known: dict[tuple[tuple[int, ...], int], int] = {}

    @property
    def win(self) -> int:
        """What a layout counts that is cleared."""
        return self.safe if self.share else 1

    def revealing(self, alive: Sequence[int], opened: int, cell: int) -> int:
        """Return what a reveal, and best play after it, gets.

        It is over the layouts with the numbers ``alive``.

        Raises:
            LongSearchError: too many beliefs were looked at.
        """
        parts: dict[tuple[int, int], list[int]] = {}
        lost = 0
        for number in alive:
            if self.mined[number] >> cell & 1:
                lost += 1
                continue
            after = opened | self._opening(number, cell)
            parts.setdefault(
                (after, self._shown[number] & self._spread_of(after & ~opened)), []
            ).append(number)
        total = lost * opened.bit_count() if self.share else 0
        for (after, _), some in parts.items():
            total += self._value(tuple(some), after)
        return total

    def _value(self, alive: tuple[int, ...], opened: int) -> int:
        """Return what best play gets."""
        if len(alive) == 1 or opened.bit_count() == self.safe:
            return len(alive) * self.win
        found = self._known.get((alive, opened))
        if found is None:
            if len(self._known) >= self.most:
                raise LongSearchError
            # counted before it is known; no belief leads back to itself
            self._known[alive, opened] = 0
            self._known[alive, opened] = found = self._best(alive, opened)
        return found

    def _best(self, alive: tuple[int, ...], opened: int) -> int:
        """Return what the best reveal gets.

        One that is safe everywhere, for it has to be made, else the most promising first.
        """
        never, closed = self.every, self.every & ~opened
        some = 0
        for number in alive:
            some |= self.mined[number]
            never &= self.mined[number]
        if sure := closed & ~some:
            return self.revealing(alive, opened, (sure & -sure).bit_length() - 1)
        ranked, pay = [], opened.bit_count() if self.share else 0
        for cell in range(len(self.around)):
            if (closed & ~never) >> cell & 1:
                lost = sum(self.mined[number] >> cell & 1 for number in alive)
                ranked.append((-((len(alive) - lost) * self.win + lost * pay), cell))
        best = 0
        for least, cell in sorted(ranked):
            if -least <= best:
                break
            best = max(best, self.revealing(alive, opened, cell))
        return best

    def _opening(self, number: int, cell: int) -> int:
        """Return the cells that a reveal of a safe cell opens in a layout.

        All cells are closed before.
        """
        found = self._opens.get((number, cell))
        if found is None:
            found, waiting = 1 << cell, [cell]
            while waiting:
                at = waiting.pop()
                if not self._counts[number][at]:
                    new = [other for other in self.around[at] if not found >> other & 1]
                    found |= sum(1 << other for other in new)
                    waiting += new
            self._opens[number, cell] = found
        return found

    def _spread_of(self, cells: int) -> int:
        """Return the bits of ``_shown`` that belong to some cells."""
        found = self._spread.get(cells)
        if found is None:
            found = sum(
                (1 << COUNT) - 1 << COUNT * cell
                for cell in range(len(self.around))
                if cells >> cell & 1
            )
            self._spread[cells] = found
        return found

"""The units that are to be played: which are open, which of them wait, and what goes together."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

SHARE = 2  # messages per worker in which what waits of an issue is sent


class Waiting:
    """Units that are open: issued and not answered; those that nobody plays wait.

    They are sent in the order of their numbers, several in one message as long as many wait and
    they are short: each worker gets its part of half of them. A message holds units of one issue,
    so that none waits
    for the answer to units that are wanted later. A unit that has ended a worker is sent alone.
    """

    def __init__(self) -> None:
        self._issues = 0
        self._open: dict[int, int] = {}  # the issue of each unit that is open
        self._free: Counter[int] = Counter()  # how many wait of each issue
        self._waits: set[int] = set()
        self._heap: list[int] = []  # those that wait, and some that were answered
        self._ended: dict[int, int] = {}  # workers that a unit has ended

    def __bool__(self) -> bool:
        """Whether any unit waits."""
        return bool(self._waits)

    def issue(self, units: Iterable[int]) -> None:
        """Take units that are wanted together."""
        self._issues += 1
        for unit in units:
            self._open[unit] = self._issues
            self.again(unit)

    def again(self, unit: int) -> bool:
        """Let a unit wait, if it is open; return whether it is."""
        issue = self._open.get(unit)
        if issue is not None and unit not in self._waits:
            self._waits.add(unit)
            self._free[issue] += 1
            heapq.heappush(self._heap, unit)
        return issue is not None

    def ended(self, unit: int) -> int:
        """Take note that an open unit has ended a worker; return how many it has."""
        found = self._ended[unit] = self._ended.get(unit, 0) + 1
        return found

    def answered(self, unit: int) -> bool:
        """Take note that a unit is answered; return whether it was open."""
        if unit not in self._open:
            return False
        if unit in self._waits:
            self._taken(unit)
        self._ended.pop(unit, None)
        del self._open[unit]
        return True

    def message(self, workers: int, most: int) -> tuple[int, ...]:
        """Return the units that a worker is to be sent; they no longer wait.

        Args:
            workers: how many share what waits.
            most: of them in one message.
        """
        first = self._first()
        part = min(-(-self._free[self._open[first]] // (SHARE * workers)), most)
        self._taken(first)
        found = [heapq.heappop(self._heap)]
        while len(found) < part and first not in self._ended:
            unit = self._first()
            if unit in self._ended or self._open[unit] != self._open[first]:
                break
            self._taken(unit)
            found.append(heapq.heappop(self._heap))
        return tuple(found)

    def _first(self) -> int:
        """Return the first unit that waits."""
        while self._heap[0] not in self._waits:
            heapq.heappop(self._heap)
        return self._heap[0]

    def _taken(self, unit: int) -> None:
        """Let a unit no longer wait."""
        self._waits.remove(unit)
        issue = self._open[unit]
        self._free[issue] -= 1
        if not self._free[issue]:
            del self._free[issue]

"""The best schedules of sub-tasks, by dynamic programming over the sets that are finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

Needs = tuple[tuple[int, ...], ...]


class Best(NamedTuple):
    """The fewest critical steps to the end, and the widest wave of the narrowest such schedule."""

    steps: int
    width: int


class After(NamedTuple):
    """Where a wave leads: the finished sub-tasks as bits, and the critical steps that are left."""

    done: int
    left: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """What waves of faultless workers cost and finish.

    A set of finished sub-tasks is a number: bit i stands for sub-task i.

    Attributes:
        steps: turns that each sub-task takes.
        needs: of each those that must be finished before.
        workers: most of a wave.
        handout: steps of the lead for each worker that it calls, beside one for the call.
    """

    steps: tuple[int, ...]
    needs: Needs
    workers: int
    handout: int

    @property
    def all(self) -> int:
        """The set of all sub-tasks."""
        return (1 << len(self.steps)) - 1

    def ready(self, done: int) -> list[int]:
        """Return the sub-tasks that can be worked at, in the order in which they are given."""
        return [
            task
            for task, needs in enumerate(self.needs)
            if not done >> task & 1 and all(done >> other & 1 for other in needs)
        ]

    def lead(self, width: int) -> int:
        """Return the lead's steps for a wave of so many workers."""
        return 1 + self.handout * width

    def after(self, done: int, left: int, width: int) -> After:
        """Return where a wave leads from here; with nothing left the play is over."""
        left = max(left - self.lead(width), 0)
        given = self.ready(done)[:width]
        finished = [task for task in given if self.steps[task] <= left]
        slowest = max((self.steps[task] for task in given), default=0)
        return After(done | sum(1 << task for task in finished), max(left - slowest, 0))

    def best(self, done: int = 0) -> Best:
        """Return the fewest critical steps in which the rest can be finished."""
        return _best(self, done)

    def serial(self) -> int:
        """Return the critical steps of one worker at a time, to the end of all."""
        return len(self.steps) * self.lead(1) + sum(self.steps)

    def value(self, done: int, left: int) -> float:
        """Return the largest share of all sub-tasks that can be finished in the steps left."""
        return _most(self, done, left) / len(self.steps)

    def values(self, done: int, left: int, widths: Sequence[int]) -> list[float]:
        """Return what a wave of each width, and the best waves after it, will have finished."""
        return [self.value(*self.after(done, left, width)) for width in widths]


@lru_cache(maxsize=100_000)
def _best(schedule: Schedule, done: int) -> Best:
    """Return the best of all widths; a worker with nothing to do is of no use."""
    ready = schedule.ready(done)
    found = [Best(0, 0)] if done == schedule.all else []
    for width in range(1, min(schedule.workers, len(ready)) + 1):
        given = ready[:width]
        rest = _best(schedule, done | sum(1 << task for task in given))
        slowest = max(schedule.steps[task] for task in given)
        found.append(Best(schedule.lead(width) + slowest + rest.steps, max(width, rest.width)))
    return min(found)


@lru_cache(maxsize=100_000)
def _most(schedule: Schedule, done: int, left: int) -> int:
    """Return how many sub-tasks can be finished in all."""
    best = schedule.best(done)
    if best.steps <= left:
        return len(schedule.steps)
    if not left:
        return done.bit_count()
    widths = range(1, min(schedule.workers, len(schedule.ready(done))) + 1)
    return max(_most(schedule, *schedule.after(done, left, width)) for width in widths)

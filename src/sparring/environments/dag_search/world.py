"""A world of sub-tasks: which depend on which, and the pages that each is looked up on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sparring.core.rng import Stream
from sparring.environments.wide_search.world import NAMES, VALUES

Shape = Literal["independent", "chain", "random"]
RESULTS = VALUES["colour"]  # what the last page of a sub-task can say
MOST_PAGES = 4
MOST_TASKS = len(NAMES) // MOST_PAGES


@dataclass(frozen=True, slots=True)
class World:
    """Sub-tasks in the order in which they are handed out.

    Attributes:
        pages: names of the pages of each sub-task; each page tells the next one.
        results: what the last page of each says.
        needs: of each the earlier sub-tasks that must be finished before.
    """

    pages: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Turns that each takes: one for a page, and one to note the result."""
        return tuple(len(own) + 1 for own in self.pages)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all pages, sorted, so that their order tells nothing."""
        return tuple(sorted(name for own in self.pages for name in own))

    def after(self, name: str) -> tuple[str, bool]:
        """Return what a page says: the next page, or a result and that it is one."""
        for own, result in zip(self.pages, self.results, strict=True):
            if name in own:
                place = own.index(name)
                return (result, True) if place == len(own) - 1 else (own[place + 1], False)
        raise ValueError(f"no page {name!r}")


@lru_cache(maxsize=4096)
def world(stream: Stream, tasks: int, pages: int, shape: Shape, edges: float) -> World:
    """Return the world of a stream.

    Args:
        stream: what is drawn from.
        tasks: how many.
        pages: most of one.
        shape: "independent": nothing depends on anything; "chain": each on the one before;
            "random": on each earlier one with probability ``edges``.
        edges: see above.
    """
    lengths = [1 + stream.child("pages").integer(task, pages) for task in range(tasks)]
    names = stream.child("names").shuffled(NAMES, sum(lengths))
    ends = [sum(lengths[: task + 1]) for task in range(tasks)]
    results, needed = stream.child("results"), stream.child("needs")

    def needs(task: int) -> tuple[int, ...]:
        if shape == "random":
            return tuple(
                other for other in range(task) if needed.uniform(task * tasks + other) < edges
            )
        return (task - 1,) if shape == "chain" and task else ()

    return World(
        pages=tuple(
            tuple(names[end - length : end]) for end, length in zip(ends, lengths, strict=True)
        ),
        results=tuple(RESULTS[results.integer(task, len(RESULTS))] for task in range(tasks)),
        needs=tuple(map(needs, range(tasks))),
    )

"""What a worker of a search was called for."""

from __future__ import annotations

from dataclasses import dataclass

Cell = tuple[int, int]  # number of the row, number of the column


@dataclass(frozen=True, slots=True)
class Call:
    """What a worker was called for, and how far it is.

    Args:
        items: rows that it is to find.
        left: turns.
        open: the page that it reads, -1 before the first: the number of its row or, where pages
            are searched by words, of the page.
        told: its conversation since the call.
        found: pages that its last search has found.
    """

    items: tuple[int, ...]
    left: int
    open: int = -1
    told: tuple[str, ...] = ()
    found: tuple[int, ...] = ()

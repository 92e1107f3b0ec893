"""What players and seats are called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


@cache
def name_of(place: int) -> str:
    """Return what a player is called."""
    return f"p{place + 1}"


@cache
def number_of(name: str) -> int:
    """Return the number of a player of a name."""
    return int(name[1:]) - 1


def role_names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each seat: the role, with a number where several have it."""
    found: list[str] = []
    for seat, kind in enumerate(kinds):
        number = kinds[: seat + 1].count(kind)
        found.append(f"{kind}{number}" if kinds.count(kind) > 1 else kind)
    return tuple(found)

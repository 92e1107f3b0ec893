"""Which seats win together: the sides of a play."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def sides_of(teams: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each team, in order of the teams' first seats."""
    seats: dict[int, list[int]] = {}
    for seat, team in enumerate(teams):
        seats.setdefault(team, []).append(seat)
    return tuple(map(tuple, seats.values()))

"""Which seats win together: the sides of a play."""

from __future__ import annotations

from collections.abc import Sequence


def sides_of(teams: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each team, in order of the teams' first seats."""
    seats: dict[int, list[int]] = {}
    for seat, team in enumerate(teams):
        seats.setdefault(team, []).append(seat)
    return tuple(map(tuple, seats.values()))

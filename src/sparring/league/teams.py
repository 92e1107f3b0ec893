"""Which seats win together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparring.errors import GameError, quoted

if TYPE_CHECKING:
    from sparring.environments.openspiel.base import Game


def teams_of(game: Game) -> tuple[int, ...]:
    """Return the number of the team of each seat, [num_seats], from 0.

    An environment says it by ``teams``, a name or number per seat. Without that every seat is a
    team of its own, and all are one where the environment is cooperative.

    Raises:
        GameError: ``teams`` has another number of seats.
    """
    given = getattr(game, "teams", None)
    if given is None:
        return (0,) * game.num_seats if game.cooperative else tuple(range(game.num_seats))
    if isinstance(given, str) or len(given) != game.num_seats:
        raise GameError(
            f"{game.name}: teams={quoted(given)} must name a team for each of its "
            f"{game.num_seats} seats; write one per seat, such as (0, 1, 0, 1)."
        )
    numbers = {team: number for number, team in enumerate(dict.fromkeys(given))}
    return tuple(numbers[team] for team in given)


def sides_of(teams: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each team, in order of the teams' first seats."""
    seats: dict[int, list[int]] = {}
    for seat, team in enumerate(teams):
        seats.setdefault(team, []).append(seat)
    return tuple(map(tuple, seats.values()))

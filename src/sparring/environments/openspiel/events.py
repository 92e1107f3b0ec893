"""What happened in a play of a game: events, and how chance outcomes are picked."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyspiel

CHANCE = -1  # the player of a chance event, as in OpenSpiel


class Event(NamedTuple):
    """One thing that happened: an action of a seat, or a chance outcome (``player == CHANCE``).

    ``ply`` is the number of seats' actions before it; ``note`` is what the game's wording wants to
    remember of the position it happened in.
    """

    ply: int
    player: int
    action: int
    note: Any = None


def pick(outcomes: list[tuple[int, float]], uniform: float) -> int:
    """Return the outcome whose slice of [0, 1) holds ``uniform``."""
    last = outcomes[-1][0]
    for index, probability in outcomes:
        uniform -= probability
        if uniform < 0.0:
            return index
        last = index if probability > 0.0 else last
    return last  # the probabilities summed to a hair less than one


def trail_of(spiel: pyspiel.State) -> tuple[Event, ...]:
    """Return the events of an OpenSpiel state, from its history."""
    trail: list[Event] = []
    ply = 0
    for item in spiel.full_history():
        player = item.player if item.player >= 0 else CHANCE
        trail.append(Event(ply, player, item.action))
        ply += player != CHANCE
    return tuple(trail)


def recent(trail: tuple[Event, ...], since: int) -> tuple[Event, ...]:
    """Return the events from ply ``since`` on, in order."""
    if not since:
        return trail
    start = len(trail)
    while start and trail[start - 1][0] >= since:
        start -= 1
    return trail[start:]

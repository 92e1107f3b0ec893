"""Positions of a game, cached and shared among its plays, and the events that led to them.

Thousands of episodes of a batch pass through the same early positions. A position caches its legal
actions, returns, texts and children, so that Sparring computes each of them once.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import pyspiel

from sparring.core.records import Observation

CHANCE = -1  # the player of a chance event, as in OpenSpiel

# with more chance outcomes than this, a position bisects their cached cumulative probabilities
BISECT_ABOVE = 1000
MAX_CACHED_POSITIONS = 10_000  # number of positions per game; a full cache is cleared


class Event(NamedTuple):
    """An action of a seat, or a chance outcome (``player == CHANCE``).

    ``ply`` is the number of seats' actions before the event. ``note`` is information about the
    position before the event that later prompts need.
    """

    ply: int
    player: int
    action: int
    note: Any = None


def pick_outcome(outcomes: list[tuple[int, float]], uniform: float) -> int:
    """Return the outcome for a uniform number in [0, 1), by its cumulative probability."""
    last_index = outcomes[-1][0]
    for index, probability in outcomes:
        uniform -= probability
        if uniform < 0.0:
            return index
        last_index = index if probability > 0.0 else last_index
    return last_index  # rounding: the probabilities sum to slightly less than one


def trail_of(spiel: pyspiel.State) -> tuple[Event, ...]:
    """Return the events of an OpenSpiel state, from its history."""
    trail: list[Event] = []
    ply = 0
    for item in spiel.full_history():
        player = item.player if item.player >= 0 else CHANCE
        trail.append(Event(ply, player, item.action))
        ply += player != CHANCE
    return tuple(trail)


def events_since(trail: tuple[Event, ...], since: int) -> tuple[Event, ...]:
    """Return the events from ply ``since`` on, in order."""
    if not since:
        return trail
    start = len(trail)
    while start and trail[start - 1][0] >= since:
        start -= 1
    return trail[start:]


class PositionKeeper(Protocol):
    """The part of a game that its cached positions need."""

    notes_events: bool
    opening: Position
    num_cached_positions: int

    def note(self, spiel: pyspiel.State, player: int, index: int) -> Any:
        """Return information about the position before an event, for the texts of later prompts."""


class Position:
    """An immutable history of a game: OpenSpiel's state, its events, and cached results."""

    __slots__ = (
        "_children",
        "_cumulative",
        "_legal",
        "_outcomes",
        "_returns",
        "done",
        "observations",
        "plies",
        "seat",
        "spiel",
        "trail",
        "words",
    )

    def __init__(self, spiel: pyspiel.State, trail: tuple[Event, ...]) -> None:
        self.spiel, self.trail = spiel, trail
        self.plies = trail[-1][0] + (trail[-1][1] != CHANCE) if trail else 0
        player = spiel.current_player()
        self.seat: int = player if player >= 0 else -1
        self.done: bool = player == pyspiel.PlayerId.TERMINAL
        self.words: tuple[str, ...] | None = None  # legal actions as words, cached
        self.observations: dict[tuple[int, int], Observation] = {}  # by (seat, since)
        self._children: dict[int, Position] = {}
        self._legal: list[int] | None = None
        self._cumulative: list[float] | None = None
        self._outcomes: list[tuple[int, float]] | None = None
        self._returns: tuple[float, ...] | None = None

    def child(self, index: int, game: PositionKeeper) -> Position:
        """Return the position after a legal action id or a chance outcome."""
        child = self._children.get(index)
        if child is None:
            note = game.note(self.spiel, self.seat, index) if game.notes_events else None
            child = Position(
                self.spiel.child(index), (*self.trail, Event(self.plies, self.seat, index, note))
            )
            self._children[index] = child
            game.num_cached_positions += 1
            if game.num_cached_positions > MAX_CACHED_POSITIONS:
                game.opening.drop_children()
                game.num_cached_positions = 0
        return child

    def drop_children(self) -> None:
        """Drop the cached children; plays at later positions are not affected."""
        self._children = {}

    def legal(self) -> list[int]:
        """Return the legal action ids; at a chance node, the outcomes."""
        if self._legal is None:
            self._legal = self.spiel.legal_actions()
        return self._legal

    def outcomes(self) -> list[tuple[int, float]]:
        """Return the chance outcomes with their probabilities."""
        if self._outcomes is None:
            self._outcomes = self.spiel.chance_outcomes()
        return self._outcomes

    def outcome_at(self, uniform: float) -> int:
        """Return the chance outcome for a uniform number in [0, 1); see ``pick_outcome``."""
        outcomes = self.outcomes()
        if len(outcomes) <= BISECT_ABOVE:
            return pick_outcome(outcomes, uniform)
        if self._cumulative is None:
            self._cumulative = list(accumulate(probability for _, probability in outcomes))
        index = bisect_right(self._cumulative, uniform)
        return outcomes[index][0] if index < len(outcomes) else pick_outcome(outcomes, uniform)

    def returns(self) -> tuple[float, ...]:
        """Return the payoffs so far, [num_seats], cumulative."""
        if self._returns is None:
            self._returns = tuple(self.spiel.returns())
        return self._returns

"""Positions of a game, kept and shared among its plays.

Thousands of games of a batch pass through the same early positions. A position remembers what was
asked of it (legal actions, returns, texts) and where each action leads, so that all of this is
worked out once.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

import pyspiel

from sparring.core.records import Observation
from sparring.environments.openspiel.events import CHANCE, Event, pick

if TYPE_CHECKING:
    from sparring.environments.openspiel.base import Game

# chance outcomes beyond which the sums of their probabilities are kept, to be searched by bisection
MANY = 1000
# positions that a game keeps; then it forgets all but what plays stand on, so that the latest games
# are at hand
KEPT = 10_000


class Position:
    """A history of a game, which never changes.

    OpenSpiel's state, the events that led to it, and what was found out about it.
    """

    __slots__ = (
        "_children",
        "_legal",
        "_marks",
        "_outcomes",
        "_returns",
        "done",
        "plies",
        "seat",
        "spiel",
        "told",
        "trail",
        "words",
    )

    def __init__(self, spiel: pyspiel.State, trail: tuple[Event, ...]) -> None:
        self.spiel, self.trail = spiel, trail
        self.plies = trail[-1][0] + (trail[-1][1] != CHANCE) if trail else 0
        player = spiel.current_player()
        self.seat: int = player if player >= 0 else -1
        self.done: bool = player == pyspiel.PlayerId.TERMINAL
        self.words: tuple[str, ...] | None = None  # legal actions as words, once asked for
        self.told: dict[tuple[int, int], Observation] = {}  # observations by (seat, since)
        self._children: dict[int, Position] = {}
        self._legal: list[int] | None = None
        self._marks: list[float] | None = None
        self._outcomes: list[tuple[int, float]] | None = None
        self._returns: tuple[float, ...] | None = None

    def child(self, index: int, game: Game) -> Position:
        """Return the position after an action id, or a chance outcome, that is legal here."""
        child = self._children.get(index)
        if child is None:
            note = game.note(self.spiel, self.seat, index) if game.notes_events else None
            child = Position(
                self.spiel.child(index), (*self.trail, Event(self.plies, self.seat, index, note))
            )
            self._children[index] = child
            game.positions_kept += 1
            if game.positions_kept > KEPT:
                game.opening.forget()
                game.positions_kept = 0
        return child

    def forget(self) -> None:
        """Forget where actions lead; plays that stand further on go on from there."""
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

    def drawn(self, uniform: float) -> int:
        """Return the chance outcome whose slice of [0, 1) holds ``uniform``."""
        outcomes = self.outcomes()
        if len(outcomes) <= MANY:
            return pick(outcomes, uniform)
        if self._marks is None:
            self._marks = list(accumulate(probability for _, probability in outcomes))
        place = bisect_right(self._marks, uniform)
        return outcomes[place][0] if place < len(outcomes) else pick(outcomes, uniform)

    def returns(self) -> tuple[float, ...]:
        """Return the payoffs so far, [num_seats], cumulative."""
        if self._returns is None:
            self._returns = tuple(self.spiel.returns())
        return self._returns

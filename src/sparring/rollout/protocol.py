"""What a play of an environment of one's own gives, checked before anything is built on it.

OpenSpiel's plays are ours and are not checked. A fault is a ``GameError``: the play's group is
dropped and counted, and the log names the environment, what it gave and what to give.
"""

from __future__ import annotations

import math
from typing import Any

from sparring.environments.own import no_rules
from sparring.errors import GameError, quoted
from sparring.types import Observation


class Asked:
    """The play of an environment, whose answers are checked unless it is one of OpenSpiel's.

    Args:
        game: the environment.

    Raises:
        GameError: its plays would have no end.
    """

    __slots__ = ("_checked", "_name", "_seats")

    def __init__(self, game: Any) -> None:
        self._name, self._seats, self._checked = game.name, game.num_seats, bool(no_rules(game))
        if self._checked and (type(game.max_turns) is not int or game.max_turns < 1):
            raise GameError(
                f"{self._name}: max_turns={quoted(game.max_turns)} must be a whole number of at "
                "least 1: the most replies of all seats that a play takes."
            )

    def due(self, play: Any) -> tuple[int, ...]:
        """Return the seats that are due in a play that goes on."""
        found = play.due()
        if not self._checked:
            return tuple(found)
        if not (
            isinstance(found, tuple | list)
            and found
            and all(type(seat) is int and 0 <= seat < self._seats for seat in found)
            and list(found) == sorted(set(found))
        ):
            raise self._wrong(
                f"due() gave {quoted(found)}, and the play is not done; give a tuple of the seats "
                f"whose replies are wanted, ascending, of 0 to {self._seats - 1}"
            )
        return tuple(found)

    def legal(self, play: Any, seat: int) -> tuple[str, ...] | None:
        """Return what a seat may choose from."""
        found: tuple[str, ...] | None = play.legal(seat)
        if not self._checked or found is None:
            return found
        if not (
            isinstance(found, tuple)
            and found
            and all(isinstance(action, str) for action in found)
            and len(set(found)) == len(found)
        ):
            raise self._wrong(
                f"legal({seat}) gave {quoted(found)}; give a tuple of texts, each once, or None "
                "where any text is an action"
            )
        return found

    def observe(self, play: Any, seat: int) -> Observation:
        """Return what a seat is told."""
        found: Observation = play.observe(seat)
        if self._checked and not (
            isinstance(found, Observation)
            and all(isinstance(part, str) for part in found[:4])
            and type(found.attempt) is int
        ):
            raise self._wrong(
                f"observe({seat}) gave {quoted(found)}; give an Observation, whose told, key, view "
                "and ask are texts"
            )
        return found

    def action(self, found: Any) -> str | None:
        """Return what an environment has read in a reply."""
        if self._checked and not (found is None or isinstance(found, str)):
            raise self._wrong(f"read() gave {quoted(found)}; give the action as a text, or None")
        action: str | None = found
        return action

    def returns(self, payoffs: Any) -> tuple[float, ...]:
        """Return the payoffs of all seats."""
        try:
            found = tuple(payoffs)
            good = len(found) == self._seats and all(map(math.isfinite, found))
        except TypeError:
            good = False
        if not good:
            raise self._wrong(f"returns must be one finite number per seat, got {quoted(payoffs)}")
        return found

    def _wrong(self, what: str) -> GameError:
        """Return the error of an environment that gave something wrong."""
        return GameError(f"{self._name}: {what}.")

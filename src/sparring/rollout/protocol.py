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


class Checked:
    """A play of an environment of one's own, which is asked as the play is.

    Args:
        game: the environment.
        play: one of its plays.

    Raises:
        GameError: its plays would have no end.
    """

    __slots__ = ("_game", "_play")

    def __init__(self, game: Any, play: Any) -> None:
        self._game, self._play = game, play
        if type(game.max_turns) is not int or game.max_turns < 1:
            raise GameError(
                f"{game.name}: max_turns={quoted(game.max_turns)} must be a whole number of at "
                "least 1: the most replies of all seats that a play takes."
            )

    def due(self) -> tuple[int, ...]:
        """Return the seats that are due in a play that goes on."""
        found, seats = self._play.due(), self._game.num_seats
        if not (
            isinstance(found, tuple | list)
            and found
            and all(type(seat) is int and 0 <= seat < seats for seat in found)
            and list(found) == sorted(set(found))
        ):
            raise self._wrong(
                f"due() gave {quoted(found)}, and the play is not done; give a tuple of the seats "
                f"whose replies are wanted, ascending, of 0 to {seats - 1}"
            )
        return tuple(found)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return what a seat may choose from."""
        found: tuple[str, ...] | None = self._play.legal(seat)
        if found is None:
            return None
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

    def observe(self, seat: int) -> Observation:
        """Return what a seat is told."""
        found: Observation = self._play.observe(seat)
        if not (
            isinstance(found, Observation)
            and all(isinstance(part, str) for part in found[:4])
            and type(found.attempt) is int
            and type(found.note) is bool
        ):
            raise self._wrong(
                f"observe({seat}) gave {quoted(found)}; give an Observation, whose told, key, view "
                "and ask are texts"
            )
        return found

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far of all seats."""
        return payoffs(self._game, self._play.returns)

    def action(self, found: Any) -> str | None:
        """Return what the environment has read in a reply."""
        if not (found is None or isinstance(found, str)):
            raise self._wrong(f"read() gave {quoted(found)}; give the action as a text, or None")
        return found

    def _wrong(self, what: str) -> GameError:
        """Return the error of an environment that gave something wrong."""
        return GameError(f"{self._game.name}: {what}.")


def checked(game: Any, play: Any) -> Any:
    """Return what is asked in place of a play: the play itself if it is one of OpenSpiel's."""
    return Checked(game, play) if no_rules(game) else play


def payoffs(game: Any, given: Any) -> tuple[float, ...]:
    """Return the payoffs of all seats.

    Raises:
        GameError: they are not one finite number per seat.
    """
    try:
        found = tuple(given)
        good = len(found) == game.num_seats and all(map(math.isfinite, found))
    except TypeError:
        good = False
    if not good:
        raise GameError(
            f"{game.name}: returns must be one finite number per seat, got {quoted(given)}."
        )
    return found

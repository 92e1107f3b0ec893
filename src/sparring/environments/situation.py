"""A decision that is put before an oracle: the play, and the seat that is to act in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparring.core.errors import GameError
from sparring.environments.base import Cloneable, Environment, Play, close_play
from sparring.environments.foreign import no_rules

__all__ = ["Situation", "close_copies", "copied", "decision_of"]


@dataclass(frozen=True, slots=True)
class Situation:
    """A play of an environment of one's own, seen at a seat that is due.

    A game over OpenSpiel needs none: its state knows who is to act.

    Args:
        game: the environment.
        play: the play.
        seat: who is to act.
        plies: moments of the play before this one.
    """

    game: Environment
    play: Play
    seat: int
    plies: int = 0

    @property
    def done(self) -> bool:
        """Whether the play is over."""
        return bool(self.play.done)

    def legal_actions(self) -> tuple[str, ...]:
        """Return what the seat may choose from."""
        return self.play.legal(self.seat) or ()


def decision_of(game: Environment, play: Play, seat: int, plies: int = 0) -> Any:
    """Return what an oracle is asked about: a state of OpenSpiel's as it is, else a situation.

    Args:
        game: what is played.
        play: as it stands.
        seat: who is to act.
        plies: moments of the play before this one.
    """
    return Situation(game, play, seat, plies) if no_rules(game) else play


def close_copies(states: Iterable[Any]) -> None:
    """Close the copies of plays that an oracle was asked about.

    Args:
        states: what ``decision_of`` gave for copies.
    """
    for state in states:
        close_play(state.play if isinstance(state, Situation) else state)


def copied(game: Environment, play: Play) -> Any:
    """Return a copy of a play for an oracle.

    Args:
        game: what is played.
        play: as it stands.

    Raises:
        GameError: it cannot be copied.
    """
    if not isinstance(play, Cloneable):
        raise GameError(
            f"{game.name}: its plays cannot be copied, so no oracle can judge them; leave the "
            "oracle out, or give the plays a method clone."
        )
    return play.clone()

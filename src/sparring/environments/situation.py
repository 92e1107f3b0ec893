"""The decisions that oracles judge: a play and the seat to act in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparring.core.errors import GameError
from sparring.environments.base import Cloneable, Environment, Play, close_play, is_searchable

__all__ = ["Situation", "close_copies", "copy_play", "decision_of"]


@dataclass(frozen=True, slots=True)
class Situation:
    """A decision in a user-defined environment: a play and a seat that is due.

    Games over OpenSpiel use their ``State`` instead, which has the seat to act.

    Args:
        game: the environment.
        play: the play.
        seat: the seat to act.
        plies: number of earlier calls of ``step`` in the play.
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
        """Return the legal actions of the seat; () if any text is legal."""
        return self.play.legal(self.seat) or ()


def decision_of(game: Environment, play: Play, seat: int, plies: int = 0) -> Any:
    """Return a decision for an oracle: the state of a game over OpenSpiel, else a ``Situation``.

    Args:
        game: the environment.
        play: the current play.
        seat: the seat to act.
        plies: number of earlier calls of ``step`` in the play.
    """
    return play if is_searchable(game) else Situation(game, play, seat, plies)


def close_copies(states: Iterable[Any]) -> None:
    """Close the copies of plays that an oracle has judged.

    Args:
        states: results of ``decision_of`` for copies.
    """
    for state in states:
        close_play(state.play if isinstance(state, Situation) else state)


def copy_play(game: Environment, play: Play) -> Any:
    """Return a copy of a play for an oracle.

    Args:
        game: the environment.
        play: the current play.

    Raises:
        GameError: the play cannot be copied.
    """
    if not isinstance(play, Cloneable):
        raise GameError(
            f"{game.name}: its plays cannot be copied, so no oracle can judge them; leave the "
            "oracle out, or give the plays a method clone."
        )
    return play.clone()

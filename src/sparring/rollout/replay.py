"""A recorded game played again: the states in which its turns were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sparring.environments.own import Asking
from sparring.errors import GameError, RolloutError
from sparring.rng import Stream
from sparring.types import Episode


def replay(game: Any, episode: Episode) -> list[Any]:
    """Return the state before each turn of an episode, in order.

    Turns taken at once share one, and so do those after which the same seat tried again, and a
    memory with the turn after it.

    Args:
        game: the rules and options that the episode was played by.
        episode: its deal is drawn again from its seed, and what was played is played again.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    with Asking(game):
        return [play.clone() for play in islice(_moments(game, episode), len(episode.turns))]


def replayed(game: Any, episode: Episode) -> Iterator[Any]:
    """Yield the one play of an episode that is played again: before each turn, and at its end.

    Look at it before the next one is asked for; plays need not be ``Cloneable``.

    Args:
        game: the rules and options that the episode was played by.
        episode: as for ``replay``.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    plays = _moments(game, episode)
    while True:
        with Asking(game):
            play = next(plays, None)
        if play is None:
            return
        yield play


def ended(game: Any, episode: Episode) -> Any:
    """Return the play of an episode that is played again, as it stands at its end.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    *_, end = replayed(game, episode)
    return end


def figures_of(game: Any, episode: Episode) -> Mapping[str, tuple[float, ...]] | None:
    """Return what an environment counts in a play, a number per seat by name.

    None where it counts nothing, and of plays that did not end by its rules. The play is played
    again, as records do not hold what was hidden.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    if not getattr(game, "figures", ()) or episode.forfeited_by is not None or episode.cut:
        return None
    end = ended(game, episode)
    with Asking(game):
        found: Mapping[str, tuple[float, ...]] = end.figures()
    return found


def _moments(game: Any, episode: Episode) -> Iterator[Any]:
    """Yield the play before each turn, and at its end."""
    play: Any = game.reset(Stream(episode.seed))
    settled: dict[int, str] = {}  # what was played in this moment so far, by seat
    for number, turn in enumerate(episode.turns):
        due = play.due()
        if turn.seat not in due or (
            turn.is_decision and (play.legal(turn.seat) or ()) != turn.legal_actions
        ):
            raise _foreign(game, episode, number, "another decision is due there")
        yield play
        if turn.action is not None:
            settled[turn.seat] = turn.action
        if len(settled) == len(due):
            try:
                play.step(settled)
            except GameError as error:
                raise _foreign(game, episode, number, str(error)) from error
            settled = {}
    yield play


def _foreign(game: Any, episode: Episode, number: int, why: str) -> RolloutError:
    """Return the error of an episode that cannot be played again."""
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} is no game of these rules at "
        f"turn {number}: {why}; replay it with the game and options it was played with "
        f"(here: {game.name!r})."
    )

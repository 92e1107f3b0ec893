"""A recorded game played again: the states in which its turns were taken."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from sparring.core.errors import GameError, RolloutError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Play, temporary_play
from sparring.environments.foreign import environment_call
from sparring.environments.situation import close_copies


def replay(game: Environment, episode: Episode) -> list[Any]:
    """Return the state before each turn of an episode, in order.

    Turns taken at once share one, and so do those after which the same seat tried again, and a
    memory with the turn after it. They are copies, which the caller closes (``close_copies``).

    Args:
        game: the rules and options that the episode was played by.
        episode: its deal is drawn again from its seed, and what was played is played again.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    copies: list[Any] = []
    plays = replayed(game, episode)
    try:
        for play in islice(plays, len(episode.turns)):
            with environment_call(game):
                copies.append(play.clone())
    except BaseException:
        close_copies(copies)
        raise
    finally:
        plays.close()
    return copies


def replayed(game: Environment, episode: Episode) -> Generator[Any]:
    """Yield the one play of an episode that is played again: before each turn, and at its end.

    Look at it before the next one is asked for; plays need not be ``Cloneable``. The play is closed
    when the generator ends.

    Args:
        game: the rules and options that the episode was played by.
        episode: as for ``replay``.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    plays = _moments(game, episode)
    try:
        while True:
            with environment_call(game):
                play = next(plays, None)
            if play is None:
                return
            yield play
    finally:
        plays.close()


@contextmanager
def ended(game: Environment, episode: Episode) -> Iterator[Any]:
    """Give the play of an episode that is played again, as it stands at its end, and close it.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    plays = replayed(game, episode)
    try:
        yield next(islice(plays, len(episode.turns), None))
    finally:
        plays.close()


def figures_of(game: Environment, episode: Episode) -> Mapping[str, tuple[float, ...]] | None:
    """Return what an environment counts in a play, a number per seat by name.

    None where it counts nothing, and of plays that did not end by its rules. The play is played
    again, as records do not hold what was hidden.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    if not game.figures or episode.forfeited_by is not None or episode.cut:
        return None
    with ended(game, episode) as end, environment_call(game):
        found: Mapping[str, tuple[float, ...]] = end.figures()
    return found


def _moments(game: Environment, episode: Episode) -> Generator[Any]:
    """Yield the play before each turn, and at its end."""
    with temporary_play(game, Stream(episode.seed)) as play:
        yield from _stepped(game, episode, play)


def _stepped(game: Environment, episode: Episode, play: Play) -> Iterator[Any]:
    """Yield a fresh play before each turn, and at its end."""
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


def _foreign(game: Environment, episode: Episode, number: int, why: str) -> RolloutError:
    """Return the error of an episode that cannot be played again."""
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} is no game of these rules at "
        f"turn {number}: {why}; replay it with the game and options it was played with "
        f"(here: {game.name!r})."
    )

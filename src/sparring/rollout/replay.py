"""A recorded game played again: the states in which its turns were taken."""

from __future__ import annotations

from sparring.environments.openspiel.base import Game, State
from sparring.errors import GameError, RolloutError
from sparring.rng import Stream
from sparring.types import Episode


def replay(game: Game, episode: Episode) -> list[State]:
    """Return the state before each turn of an episode, in order.

    Turns after which the same seat tried again share one.

    Args:
        game: the rules and options that the episode was played by.
        episode: its deal is drawn again from its seed, and what was played is played again.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    state = game.reset(Stream(episode.seed))
    found = []
    for number, turn in enumerate(episode.turns):
        if state.seat != turn.seat or state.legal_actions() != turn.legal_actions:
            raise _foreign(game, episode, number, "another decision is due there")
        found.append(state.clone())
        if turn.action is not None:
            try:
                state.apply(turn.action)
            except GameError as error:
                raise _foreign(game, episode, number, str(error)) from error
    return found


def _foreign(game: Game, episode: Episode, number: int, why: str) -> RolloutError:
    """Return the error of an episode that cannot be played again."""
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} is no game of these rules at "
        f"turn {number}: {why}; replay it with the game and options it was played with "
        f"(here: {game.name!r})."
    )

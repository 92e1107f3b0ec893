"""Pictures of stored episodes: the position before a turn, by replay of the record.

Only the record and its environment are read, so no model is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sparring.core.errors import ConfigError, RolloutError
from sparring.core.records import Episode
from sparring.environments.base import Environment
from sparring.environments.catalogue import from_spec
from sparring.environments.drawing.canvas import Theme
from sparring.environments.drawing.pieces import PastTurn, describe_play, draw_play
from sparring.environments.foreign import environment_call
from sparring.play.replay import replay_states

__all__ = ["EpisodePicture", "environment_of", "picture", "sentences"]


class EpisodePicture(NamedTuple):
    """A position of an episode, as an SVG and as a sentence."""

    svg: str
    description: str


def environment_of(episode: Episode) -> Any:
    """Return the environment of an episode, made from its record.

    Raises:
        RolloutError: the record has no environment, as in older versions.
        GameError: the environment's rules or wording have changed since.
        ConfigError: the environment is not on this machine, or has other options now.
    """
    if episode.environment is None:
        raise RolloutError(
            f"Episode {episode.episode_id} of {episode.game!r} has no environment in its record, "
            "so it cannot be drawn; play it anew, with an environment made by its name."
        )
    return from_spec(episode.environment)


def picture(
    episode: Episode,
    turn: int,
    seat: int | None = None,
    theme: Theme = "light",
    environment: Environment | None = None,
) -> EpisodePicture:
    """Return the position before a turn of an episode, as SVG and as a sentence.

    An environment without a picture is drawn as a timeline of prompts and replies.

    Args:
        episode: a stored episode.
        turn: place in ``episode.turns``, from 0; the number of turns means the end.
        seat: the seat whose knowledge is shown; None: nothing is hidden.
        theme: "light" or "dark".
        environment: the episode's environment; None: it is made from the record.

    Raises:
        ConfigError: there is no such turn or seat, or the environment is not on this machine.
        RolloutError: the episode cannot be replayed, or its record has no environment.
        GameError: the environment's rules or wording have changed since.
        UnknownNameError: there is no such theme.
        PluginError: the environment's code raised, or hung.
    """
    if not 0 <= turn <= len(episode.turns):
        raise ConfigError(
            f"Episode {episode.episode_id} has no turn {turn}; write one of 0 to "
            f"{len(episode.turns)}, which is the end."
        )
    if seat is not None and not 0 <= seat < len(episode.roles):
        raise ConfigError(
            f"Episode {episode.episode_id} has no seat {seat}; write one of 0 to "
            f"{len(episode.roles) - 1}."
        )
    game = environment_of(episode) if environment is None else environment
    for number, play in enumerate(replay_states(game, episode)):
        if number == turn:
            past = _past_turns(episode, turn)
            with environment_call(game):
                svg = draw_play(play, episode.roles, seat, theme, past)
                return EpisodePicture(svg, describe_play(play, episode.roles, seat, past))
    raise AssertionError  # unreachable: a state is yielded for every turn and the end


def sentences(
    episode: Episode, seat: int | None = None, environment: Environment | None = None
) -> Iterator[str]:
    """Yield the position in words before each turn of an episode, and at its end.

    Args, Raises: as for ``picture``.
    """
    game = environment_of(episode) if environment is None else environment
    for turn, play in enumerate(replay_states(game, episode)):
        with environment_call(game):
            sentence = describe_play(play, episode.roles, seat, _past_turns(episode, turn))
        yield sentence


def _past_turns(episode: Episode, turn: int) -> list[PastTurn]:
    return [
        PastTurn(earlier.seat, earlier.prompt, earlier.reply) for earlier in episode.turns[:turn]
    ]

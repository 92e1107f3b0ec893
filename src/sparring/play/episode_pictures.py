"""The picture of a stored episode at one of its turns: its play is made again up to there.

Nothing is read but the record and the environment that it names, so that it can be called in a
process of its own, without a model.
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
from sparring.play.replay import replayed

__all__ = ["Pictured", "environment_of", "picture", "sentences"]


class Pictured(NamedTuple):
    """A position of an episode, drawn and in words."""

    svg: str
    said: str


def environment_of(episode: Episode) -> Any:
    """Return the environment that an episode was played by, made again from its record.

    Raises:
        RolloutError: the record names none, as those of older versions do.
        GameError: its rules or wording have changed since.
        ConfigError: it is not on this machine, or takes other options now.
    """
    if episode.environment is None:
        raise RolloutError(
            f"Episode {episode.episode_id} of {episode.game!r} does not say what it was played by, "
            "so it cannot be drawn; play it anew, with rules that have a name."
        )
    return from_spec(episode.environment)


def picture(
    episode: Episode,
    turn: int,
    seat: int | None = None,
    theme: Theme = "light",
    environment: Environment | None = None,
) -> Pictured:
    """Return the position before a turn of an episode, as SVG and as a sentence.

    An environment that brings no picture is drawn as a timeline of what was told and said.

    Args:
        episode: a stored play.
        turn: number of the turn in ``episode.turns``, from 0; their number: the end.
        seat: who looks, and sees what it knows there; None: nothing is hidden.
        theme: "light" or "dark".
        environment: what it was played by, if that is at hand; else it is made from the record.

    Raises:
        ConfigError: there is no such turn or seat, or the environment is not on this machine.
        RolloutError: it cannot be played again, or the record does not name the environment.
        GameError: the environment's rules or wording have changed since.
        UnknownNameError: there is no such theme.
        PluginError: the environment's own code raised, or does not come back.
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
    for number, play in enumerate(replayed(game, episode)):
        if number == turn:
            past = _past(episode, turn)
            with environment_call(game):
                svg = draw_play(play, episode.roles, seat, theme, past)
                return Pictured(svg, describe_play(play, episode.roles, seat, past))
    raise AssertionError  # the play is yielded for every turn and the end


def sentences(
    episode: Episode, seat: int | None = None, environment: Environment | None = None
) -> Iterator[str]:
    """Yield the position in words before each turn of an episode, and at its end.

    Args:
        episode: a stored play.
        seat: who looks; None: nothing is hidden.
        environment: what it was played by, if that is at hand.

    Raises:
        ConfigError: the environment is not on this machine.
        RolloutError: it cannot be played again, or the record does not name the environment.
        GameError: the environment's rules or wording have changed since.
        PluginError: the environment's own code raised, or does not come back.
    """
    game = environment_of(episode) if environment is None else environment
    for turn, play in enumerate(replayed(game, episode)):
        with environment_call(game):
            said = describe_play(play, episode.roles, seat, _past(episode, turn))
        yield said


def _past(episode: Episode, turn: int) -> list[PastTurn]:
    return [PastTurn(one.seat, one.told, one.reply) for one in episode.turns[:turn]]

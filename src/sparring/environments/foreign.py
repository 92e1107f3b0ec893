"""Environments that are not OpenSpiel games: required attributes and error messages.

Policies can learn in such an environment; a policy's measure is its mean return in matches. Exact
figures, oracles and solvers need searchable rules: without them a note replaces the figure, or an
error names the environment.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.plugin import named
from sparring.core.errors import GameError, SparringError, quoted
from sparring.core.foreign_text import current_slot
from sparring.environments.base import (
    Environment,
    GameRules,
    HasVocabulary,
    is_searchable,
    is_searchable_play,
)

# required attributes of an environment; its plays are checked when they are used
REQUIRED = ("roles", "max_turns", "reset")
DEFAULTS: Mapping[str, Any] = {  # defaults of the optional attributes
    field: value
    for field, value in vars(Environment).items()
    if field in Environment.__annotations__
}
SLOT = "sparring.environments."


class environment_call(PluginCall):
    """A context for calls to an environment or its plays, each with a time limit.

    A new value of ``now`` restarts the time limit for the next call.

    Args:
        game: the environment.

    Raises:
        GameError: on exit, if the environment lacks an attribute.
        PluginError: on exit, in place of any other exception of the environment's code.
        HungError: a call does not return in time.
    """

    __slots__ = ()

    def __init__(self, game: Environment | GameRules) -> None:
        super().__init__(named("environments", game.name))

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        attribute_error = lacking_error(error) if isinstance(error, AttributeError) else None
        super().__exit__(error_type, attribute_error or error, trace)
        if attribute_error is not None:
            raise attribute_error from error


def words_of(game: Environment) -> tuple[str, ...]:
    """Return every word of an environment's observations and replies in brief style.

    Raises:
        GameError: the environment has no vocabulary, or returns something else.
    """
    with environment_call(game):
        words: Any = cast(HasVocabulary, game).vocabulary()
    if not isinstance(words, tuple | list) or not all(isinstance(word, str) for word in words):
        raise GameError(
            f"{game.name}: vocabulary() returned {quoted(words)}; return a tuple of the words of "
            "observations and replies in brief style."
        )
    return tuple(words)


def reason_not_searchable(game: object) -> str:
    """Return the reason why a game cannot be searched, as a clause; "" if it can be searched."""
    return "" if is_searchable(game) else "only games over OpenSpiel can be searched"


def complete_environment(name: str, game: Any) -> Environment:
    """Return an environment with defaults for its missing attributes.

    Args:
        name: name of the plug-in.
        game: the return value of the plug-in's function.

    Raises:
        GameError: a required attribute is missing, or ``roles`` is not a tuple of names.
    """
    if is_searchable(game):
        return game
    missing_names = [attribute for attribute in REQUIRED if not hasattr(game, attribute)]
    if missing_names:
        raise GameError(
            f"Environment {name!r} ({_type_of(game)}) lacks {', '.join(missing_names)}; "
            "Environment in sparring/environments/base.py describes each attribute."
        )
    roles = game.roles
    if (
        not isinstance(roles, tuple)
        or not roles
        or not all(isinstance(role, str) for role in roles)
    ):
        raise GameError(
            f"Environment {name!r}: roles={quoted(roles)} must be a tuple with a name per seat; "
            "write roles = ('buyer', 'seller')."
        )
    for field, value in {**DEFAULTS, "name": name, "num_seats": len(roles)}.items():
        if not hasattr(game, field):
            try:
                setattr(game, field, value)
            except AttributeError:
                raise GameError(
                    f"Environment {name!r} ({_type_of(game)}) takes no attribute {field!r}; set "
                    f"{field} = {value!r} in its class."
                ) from None
    environment: Environment = game
    return environment


def lacking_error(error: AttributeError) -> GameError | None:
    """Return an error that names an attribute which an environment or its play lacks.

    The result is None for an error about another object, and for a bug in the environment's code.
    """
    owner, frames = error.obj, traceback.extract_tb(error.__traceback__)
    if (
        owner is None
        or isinstance(owner, type)
        or is_searchable(owner)
        or is_searchable_play(owner)
        or not _is_environment_module(type(owner).__module__)
    ):
        return None
    if frames and frames[-1].filename == getattr(
        sys.modules.get(type(owner).__module__), "__file__", None
    ):
        return None
    location = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return GameError(
        f"{_type_of(owner)} lacks {error.name!r}, which is needed here{location}; write it: "
        "Environment and Play in sparring/environments/base.py describe each attribute. Only games "
        "over OpenSpiel can be searched."
    )


def is_raised_by(play: object, error: Exception) -> bool:
    """Return whether the code of a user-defined play raised an error.

    Errors of Sparring itself and of games over OpenSpiel do not count.
    """
    if isinstance(error, SparringError) or is_searchable_play(play):
        return False
    prefixes = {f"{base.__qualname__}." for base in type(play).__mro__ if base is not object}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_qualname.startswith(tuple(prefixes)) for frame, _ in frames)


def _is_environment_module(module: str) -> bool:
    return module.startswith(SLOT) or (
        current_slot(str(getattr(sys.modules.get(module), "SLOT", ""))) == "environments"
    )


def _type_of(value: Any) -> str:
    return f"{type(value).__name__} in {type(value).__module__}"

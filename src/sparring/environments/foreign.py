"""Environments that are no games of OpenSpiel's rules.

What they must have, and how it is said that they lack something.

Such an environment trains and is measured by its mean return in matches. What needs rules that can
be searched (exact figures, oracles, solvers) is left out with a note, or refused with a
line that names the environment.
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

# of an environment; play itself asks its courses for the rest
NEEDED = ("roles", "max_turns", "reset")
DEFAULTS: Mapping[str, Any] = {  # of what an environment need not say
    field: value
    for field, value in vars(Environment).items()
    if field in Environment.__annotations__
}
SLOT = "sparring.environments."


class environment_call(PluginCall):
    """Questions to an environment or its plays, as a context: each has the limit in time.

    Setting ``now`` begins the time of the next one.

    Args:
        game: the environment.

    Raises:
        GameError: on leaving, where it lacks what was asked for.
        PluginError: on leaving, in place of another exception of its own code.
        HungError: it does not come back.
    """

    __slots__ = ()

    def __init__(self, game: Environment | GameRules) -> None:
        super().__init__(named("environments", game.name))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lacking = lacking_error(error) if isinstance(error, AttributeError) else None
        super().__exit__(kind, lacking or error, trace)
        if lacking is not None:
            raise lacking from error


def words_of(game: Environment) -> tuple[str, ...]:
    """Return every word that an environment tells or reads in brief style.

    Raises:
        GameError: it has no such list, or gives something else.
    """
    with environment_call(game):
        found: Any = cast(HasVocabulary, game).vocabulary()
    if not isinstance(found, tuple | list) or not all(isinstance(word, str) for word in found):
        raise GameError(
            f"{game.name}: vocabulary() gave {quoted(found)}; give a tuple of the words that are "
            "told and said in brief style."
        )
    return tuple(found)


def no_rules(game: object) -> str:
    """Return why nothing can search a game, or ""; a clause."""
    return "" if is_searchable(game) else "it has no rules of OpenSpiel's that could be searched"


def completed(name: str, made: Any) -> Environment:
    """Return an environment with defaults for what it does not say.

    Args:
        name: of the plug-in.
        made: what its function gave.

    Raises:
        GameError: it lacks what play needs first, or its roles are no names of seats.
    """
    if is_searchable(made):
        return made
    lacking = [part for part in NEEDED if not hasattr(made, part)]
    if lacking:
        raise GameError(
            f"Environment {name!r} ({_called(made)}) lacks {', '.join(lacking)}; Environment in "
            "sparring/environments/base.py says what each is."
        )
    roles = made.roles
    if not isinstance(roles, tuple) or not roles or not all(isinstance(one, str) for one in roles):
        raise GameError(
            f"Environment {name!r}: roles={quoted(roles)} must be a tuple with a name per seat; "
            "write roles = ('buyer', 'seller')."
        )
    for field, value in {**DEFAULTS, "name": name, "num_seats": len(roles)}.items():
        if not hasattr(made, field):
            try:
                setattr(made, field, value)
            except AttributeError:
                raise GameError(
                    f"Environment {name!r} ({_called(made)}) takes no attribute {field!r}; give "
                    f"it one: {field} = {value!r}."
                ) from None
    environment: Environment = made
    return environment


def lacking_error(error: AttributeError) -> GameError | None:
    """Return the error that names what an environment of one's own lacks for our code.

    It may be a course of it that lacks something.

    None if the error is about something else, or a fault in the environment's own code, which may
    be met by chance alone.
    """
    lacking, frames = error.obj, traceback.extract_tb(error.__traceback__)
    if (
        lacking is None
        or isinstance(lacking, type)
        or is_searchable(lacking)
        or is_searchable_play(lacking)
        or not _is_of_a_game(type(lacking).__module__)
    ):
        return None
    if frames and frames[-1].filename == getattr(
        sys.modules.get(type(lacking).__module__), "__file__", None
    ):
        return None
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return GameError(
        f"{_called(lacking)} lacks {error.name!r}, which is asked for here{where}; give it one: "
        "Environment and Play in sparring/environments/base.py say what each is. What searches "
        "rules works on games over OpenSpiel alone."
    )


def raised_by(play: object, error: Exception) -> bool:
    """Return whether the code of a play of one's own raised an error, whoever had asked it.

    What Sparring says itself, and what comes of OpenSpiel's games, is not meant.
    """
    if isinstance(error, SparringError) or is_searchable_play(play):
        return False
    own = {f"{one.__qualname__}." for one in type(play).__mro__ if one is not object}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_qualname.startswith(tuple(own)) for frame, _ in frames)


def _is_of_a_game(module: str) -> bool:
    """Return whether a module is a plug-in of the slot of games.

    Sparring's own are, and those from outside.
    """
    return module.startswith(SLOT) or (
        current_slot(str(getattr(sys.modules.get(module), "SLOT", ""))) == "environments"
    )


def _called(thing: Any) -> str:
    """Return what an object is, with its module."""
    return f"{type(thing).__name__} in {type(thing).__module__}"

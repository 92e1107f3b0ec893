"""Environments of one's own that are no games of OpenSpiel's rules.

What they must have, and how it is said that they lack something.

Such an environment trains and is measured by its mean return in matches. What needs rules that can
be searched (exact figures, oracles, solvers, pictures) is left out with a note, or refused with a
line that names the environment.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from sparring import spelling
from sparring.environments.openspiel.base import Game, State
from sparring.errors import GameError

# of an environment; play itself asks its courses for the rest
NEEDED = ("roles", "num_seats", "max_turns", "reset")
SLOT = "sparring.environments."


def no_rules(game: Any) -> str:
    """Return why nothing can search a game, or ""; a clause."""
    return "" if isinstance(game, Game) else "it has no rules of OpenSpiel's that could be searched"


def check_own(name: str, game: Any) -> None:
    """Check that an environment of one's own has what play needs first.

    Raises:
        GameError: it lacks some of it.
    """
    lacking = [] if isinstance(game, Game) else [part for part in NEEDED if not hasattr(game, part)]
    if lacking:
        what = ", ".join(lacking)
        raise GameError(
            f"Environment {name!r} ({_called(game)}) lacks {what}; Game in "
            "sparring/environments/openspiel/base.py says what each is."
        )


def lacking_error(error: AttributeError) -> GameError | None:
    """Return the error that names what an environment of one's own lacks for our code.

    It may be a course of it that lacks something.

    None if the error is about something else, or a fault in the environment's own code, which may
    be met by chance alone.
    """
    lacking, frames = error.obj, traceback.extract_tb(error.__traceback__)
    if (
        lacking is None
        or isinstance(lacking, (Game, State, type))
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
        "Game and State in sparring/environments/openspiel/base.py say what each is. What searches "
        "rules works on games over OpenSpiel alone."
    )


def _is_of_a_game(module: str) -> bool:
    """Return whether a module is a plug-in of the slot of games.

    Sparring's own are, and those from outside.
    """
    return module.startswith(SLOT) or (
        spelling.slot(str(getattr(sys.modules.get(module), "SLOT", ""))) == "environments"
    )


def _called(thing: Any) -> str:
    """Return what an object is, with its module."""
    return f"{type(thing).__name__} in {type(thing).__module__}"

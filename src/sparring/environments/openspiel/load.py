"""OpenSpiel's games by name: its own, and those that ``table.register`` added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyspiel


def load(name: str, parameters: Mapping[str, Any] | None = None) -> pyspiel.Game:
    """Return rules of OpenSpiel's, to make a ``Game`` of.

    Args:
        name: OpenSpiel's name, or, without ``parameters``, its text for a game with parameters.
        parameters: OpenSpiel's, by name.
    """
    return pyspiel.load_game(name) if parameters is None else pyspiel.load_game(name, parameters)


def registered_names() -> list[str]:
    """Return the names of all games that can be loaded."""
    names: list[str] = pyspiel.registered_names()
    return names

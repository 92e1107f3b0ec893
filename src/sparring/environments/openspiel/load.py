"""Loads OpenSpiel's games by name: built-in games, and those of ``table.register``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyspiel


def load(name: str, parameters: Mapping[str, Any] | None = None) -> pyspiel.Game:
    """Return OpenSpiel's rules for a ``Game``.

    Args:
        name: OpenSpiel's name; without ``parameters`` it may contain them, as "hex(num_rows=5)".
        parameters: OpenSpiel's parameters by name.
    """
    return pyspiel.load_game(name) if parameters is None else pyspiel.load_game(name, parameters)


def registered_names() -> list[str]:
    """Return the names of all games that OpenSpiel can load."""
    names: list[str] = pyspiel.registered_names()
    return names

"""Old spellings of names that users have typed: they stay readable, everywhere.

Recipes, overrides, run folders, plug-ins from outside and the command line are read through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.core.errors import ConfigError

SLOTS = {"games": "environments", "agents": "players"}  # old name of a slot -> today's
KEYS = {"games": "environments"}  # old key of the configuration -> today's


def slot(name: str) -> str:
    """Return the name of a slot as it is spelled today: ``games.solver`` is in ``environments``."""
    first, dot, rest = name.partition(".")
    return SLOTS.get(first, first) + dot + rest


def slots(name: str) -> tuple[str, ...]:
    """Return every spelling of a slot, today's first."""
    return (name, *(old for old, new in SLOTS.items() if new == name))


def path(text: str) -> str:
    """Return the path of an override as it is spelled today: ``games.0.name`` and its like."""
    first, dot, rest = text.partition(".")
    return KEYS.get(first, first) + dot + rest


def keys(data: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a configuration with its keys as they are spelled today.

    Args:
        data: a recipe, or the configuration of a run.
        what: it in words, for the error.

    Raises:
        ConfigError: it holds a key in both spellings.
    """
    for old, new in KEYS.items():
        if old in data and new in data:
            raise ConfigError(
                f"{what} has both {new!r} and {old!r}, its old spelling; write {new!r} alone."
            )
    return {KEYS.get(key, key): value for key, value in data.items()}

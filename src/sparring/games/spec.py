"""Environments as values: what a play was played by, to be written down and made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparring.types import EnvironmentSpec

if TYPE_CHECKING:
    from sparring.games.base import Game

SUPPORT = True


def spec_of(game: Game) -> EnvironmentSpec | None:
    """Return the value that a game was made from, or None for rules that no name makes."""
    if game.made_by is None:
        return None
    name = str(game.made_by["name"])
    return EnvironmentSpec(
        name=name,
        options=plain(game.made_by["options"]),
        illegal=asdict(game.illegal),
        label="" if game.name == name else game.name,
        version=version_of(game),
    )


def version_of(game: Game) -> int:
    """Return the version of a game's rules and wording; 1 unless its class says otherwise."""
    return int(getattr(game, "version", 1))


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back: tuples as lists, keys as texts, and what JSON has no form for as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

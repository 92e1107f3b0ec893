"""Environments as values: what a play was played by, to be written down and made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparring.core.errors import ConfigError, quoted
from sparring.core.foreign_text import check_label
from sparring.core.records import EnvironmentSpec

if TYPE_CHECKING:
    from sparring.environments.base import Environment

WORDS: Mapping[type, str] = {str: "text", Mapping: "mapping", int: "whole number"}
KEPT = "_spec_of"  # where a game keeps its spec, and what it was made from


def spec_of(game: Environment) -> EnvironmentSpec | None:
    """Return the value that a game was made from, or None for rules that no name makes.

    The same object at every call.
    """
    made_by = game.made_by
    if made_by is None:
        return None
    key = (id(made_by), game.illegal, game.name)
    known, spec = vars(game).get(KEPT, (None, None)) if hasattr(game, "__dict__") else (None, None)
    if known == key:
        return spec
    name = str(made_by["name"])
    spec = EnvironmentSpec(
        name=name,
        options=plain(made_by["options"]),
        illegal=asdict(game.illegal),
        label="" if game.name == name else str(game.name),
        version=version_of(game),
    )
    if hasattr(game, "__dict__"):
        vars(game)[KEPT] = (key, spec)
    return spec


def check_spec(spec: EnvironmentSpec) -> None:
    """Check the fields of a spec, which may come from a file.

    Raises:
        ConfigError: one of them is of the wrong kind.
    """
    kinds = {"name": str, "options": Mapping, "illegal": Mapping, "label": str, "version": int}
    for field, kind in kinds.items():
        value = getattr(spec, field)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(
                f"EnvironmentSpec.{field}={quoted(value)} is no {WORDS[kind]}; take it from an "
                "episode, or write one."
            )
    try:
        _ = spec.label and check_label(spec.label)
    except ValueError as error:
        raise ConfigError(
            f"EnvironmentSpec.label={quoted(spec.label)} is no label: {error}."
        ) from None


def version_of(game: Environment) -> int:
    """Return the version of a game's rules and wording; 1 where it is no whole number."""
    return game.version if type(game.version) is int else 1


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back.

    Tuples as lists, keys as texts, and what JSON has no form for as text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

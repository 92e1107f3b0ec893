"""Makes games by name.

The hand-written ones come first, then any turn-based game that OpenSpiel has registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.plugin import named
from sparring.core.errors import GameError, UnknownNameError, quoted
from sparring.core.records import EnvironmentSpec
from sparring.environments.base import (
    Environment,
    HasOtherBank,
    IllegalRule,
    check_spec,
    version_of,
)
from sparring.environments.foreign import completed, environment_call, no_rules
from sparring.environments.openspiel.generic import openspiel_game
from sparring.environments.openspiel.load import registered_names


@cache
def game_names() -> tuple[str, ...]:
    """Return the names that ``make_game`` knows, sorted: plug-ins and OpenSpiel's games."""
    return tuple(sorted({*registry.names("environments"), *registered_names()}))


def searchable_names() -> tuple[str, ...]:
    """Return the plug-ins, sorted, whose rules can be searched: games over OpenSpiel."""
    return tuple(name for name in registry.names("environments") if not no_rules(make_game(name)))


def make_game(
    name: str, *, options: Mapping[str, Any] | None = None, illegal: Mapping[str, Any] | None = None
) -> Environment:
    """Return a game by name.

    Args:
        name: a plug-in of ``sparring.environments`` or a game registered with OpenSpiel.
        options: the plug-in's options; for an OpenSpiel game its parameters, and ``style``.
        illegal: fields of ``IllegalRule``.

    Raises:
        UnknownNameError: no such game, option or illegal-move rule.
        ConfigError: an option of the wrong type or out of range.
        GameError: OpenSpiel has the game, but it cannot be played here.
        PluginError: its own code raised, or does not come back.
    """
    game: Environment
    with PluginCall(named("environments", name)):
        if registry.known("environments", name):
            game = registry.bind("environments", name, options)()
        elif name in registered_names():
            game = openspiel_game(name, options or {})
        else:
            raise UnknownNameError("game", name, game_names(), "See `sparring list environments`.")
        game = completed(name, game)
        game.illegal = IllegalRule.from_options({**_own_rule(game), **(illegal or {})})
        game.illegal.check(game)
    game.made_by = {"name": name, "options": dict(options or {})}
    made: Environment = game  # or what has the same attributes
    return made


def _own_rule(game: Environment) -> Mapping[str, Any]:
    declared = getattr(game, "illegal", None)
    return declared if isinstance(declared, Mapping) else {}


def from_spec(spec: EnvironmentSpec) -> Environment:
    """Return the game that a spec is the value of; see ``make_game`` for what else it raises.

    Raises:
        ConfigError: the spec holds what names no environment.
        GameError: its rules or wording have changed since.
    """
    check_spec(spec)
    game = make_game(spec.name, options=spec.options, illegal=spec.illegal)
    if version_of(game) != spec.version:
        raise GameError(
            f"Environment {quoted(spec.name)} has version {version_of(game)} here, and "
            f"version {spec.version} is asked for. What that one played cannot be played again by "
            "this one; install the Sparring that wrote the record."
        )
    game.name = spec.label or spec.name
    return game


def configured_game(section: EnvironmentConfig) -> Environment:
    """Return the game of a section of a configuration, under its label; see ``make_game``."""
    game = make_game(section.name, options=section.options, illegal=section.illegal)
    game.name = section.known_as
    return game


def another_bank(game: Environment) -> Environment | None:
    """Return the same game with another bank of starts, which may still share some with its own.

    None where there is none.
    """
    with environment_call(game):
        options = cast(HasOtherBank, game).other_bank()
    return None if options is None or game.made_by is None else like(game, options)


def like(game: Environment, options: Mapping[str, Any]) -> Environment:
    """Return a game of these options under the label and the illegal rule of another."""
    made = make_game(str(game.made_by["name"]) if game.made_by else game.name, options=options)
    made.name, made.illegal = game.name, game.illegal
    return made

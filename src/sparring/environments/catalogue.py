"""Makes environments by name: plug-ins first, then the games registered with OpenSpiel."""

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
    is_searchable,
    version_of,
)
from sparring.environments.foreign import complete_environment, environment_call
from sparring.environments.openspiel.generic import openspiel_game
from sparring.environments.openspiel.load import registered_names


@cache
def game_names() -> tuple[str, ...]:
    """Return the sorted names that ``make_game`` accepts: plug-ins and OpenSpiel's games."""
    plugins = {*registry.names("environments"), *registry.bridges("environments")}
    return tuple(sorted(plugins | {*registered_names()}))


def searchable_names() -> tuple[str, ...]:
    """Return the sorted names of the searchable plug-ins: games over OpenSpiel."""
    return tuple(name for name in registry.names("environments") if is_searchable(make_game(name)))


def make_game(
    name: str, *, options: Mapping[str, Any] | None = None, illegal: Mapping[str, Any] | None = None
) -> Environment:
    """Make an environment from its name and options.

    Args:
        name: a plug-in of ``sparring.environments`` or a game registered with OpenSpiel.
        options: the plug-in's options; for an OpenSpiel game its parameters, and ``style``.
        illegal: fields of ``IllegalRule``.

    Raises:
        UnknownNameError: there is no such environment, option or rule for illegal replies.
        ConfigError: an option of the wrong type or out of range.
        GameError: OpenSpiel has the game, but it cannot be played here.
        PluginError: the plug-in's code raised, or did not return in time.
    """
    game: Environment
    with PluginCall(named("environments", name)):
        if registry.is_known("environments", name):
            game = registry.bind("environments", name, options)()
        elif name in registered_names():
            game = openspiel_game(name, options or {})
        else:
            raise UnknownNameError("game", name, game_names(), "See `sparring list environments`.")
        game = complete_environment(name, game)
        game.illegal = IllegalRule.from_options({**_declared_rule(game), **(illegal or {})})
        game.illegal.check(game)
    game.made_by = {"name": name, "options": dict(options or {})}
    environment: Environment = game  # any object with the attributes of an ``Environment``
    return environment


def _declared_rule(game: Environment) -> Mapping[str, Any]:
    rule = getattr(game, "illegal", None)
    return rule if isinstance(rule, Mapping) else {}


def from_spec(spec: EnvironmentSpec) -> Environment:
    """Return the environment of a spec, made by ``make_game``.

    Raises:
        ConfigError: a field of the spec has the wrong type, or an error of ``make_game``.
        GameError: rules or wording have another version here.
    """
    check_spec(spec)
    game = make_game(spec.name, options=spec.options, illegal=spec.illegal)
    if version_of(game) != spec.version:
        raise GameError(
            f"Environment {quoted(spec.name)} has version {version_of(game)} here, but the record "
            f"has version {spec.version}; version {version_of(game)} cannot replay it. Install the "
            "version of Sparring that wrote the record."
        )
    game.name = spec.label or spec.name
    return game


def configured_game(section: EnvironmentConfig) -> Environment:
    """Return the environment of a section of a configuration, with its label as its name."""
    game = make_game(section.name, options=section.options, illegal=section.illegal)
    game.name = section.display_name
    return game


def another_bank(game: Environment) -> Environment | None:
    """Return the environment with another, mostly different bank; None: there is no other."""
    with environment_call(game):
        options = cast(HasOtherBank, game).other_bank()
    return None if options is None or game.made_by is None else with_options(game, options)


def with_options(game: Environment, options: Mapping[str, Any]) -> Environment:
    """Return a copy of ``game`` with other options, but the same name and illegal rule."""
    game_copy = make_game(str(game.made_by["name"]) if game.made_by else game.name, options=options)
    game_copy.name, game_copy.illegal = game.name, game.illegal
    return game_copy

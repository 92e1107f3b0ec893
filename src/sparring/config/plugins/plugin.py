"""A plug-in, and a plug-in bound to checked options.

Options are the keyword-only parameters of the plug-in's function, checked by their annotations.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import ModuleType
from typing import Any, Literal

import pydantic

from sparring.config.plugins.guard import PluginCall
from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.core.schedule import Schedule, is_schedule, parse

SLOTS = {
    "environments": "environment",
    "render": "renderer",
    "context": "context strategy",
    "samplers": "sampler",
    "players": "player",
    "knowledge": "knowledge",
    "knowledge.embeddings": "embedding",
    "oracles": "oracle",
    "rewards": "reward",
    "columns": "column",
    "credit": "advantage estimator",
    "features": "feature",
    "losses": "loss",
    "selection": "selection rule",
    "selection.curricula": "curriculum",
    "selection.replay": "replay rule",
    "league.matchmakers": "matchmaker",
    "league.keeping": "keeping rule",
    "league.meta_solvers": "meta-solver",
    "league.schedules": "schedule",
    "rollout.plans": "rollout plan",
    "run.sinks": "sink",
}
PACKAGES = {  # slot -> package in sparring, if it has another name
    "render": "models.render",
    "samplers": "models.samplers",
    "context": "play.context",
    "players": "play.players",
    "rollout.plans": "play.plans",
    **{
        slot: f"methods.{slot}"
        for slot in SLOTS
        if slot.partition(".")[0]
        in (
            "knowledge",
            "oracles",
            "rewards",
            "columns",
            "credit",
            "features",
            "losses",
            "selection",
        )
    },
}
PARTS = {"environments.solver": "solver"}  # slot.module of parts in a plug-in's folder
KEYS = {  # slot -> configuration key of its plug-ins, for errors
    "environments": "environments.N",
    "render": "renderer",
    "context": "context",
    "samplers": "sampler",
    "players": "bots, evaluation.opponents",
    "knowledge": "knowledge",
    "knowledge.embeddings": "knowledge.embedding",
    "oracles": "environments.N.oracle",
    "environments.solver": "environments.N.oracle",
    "rewards": "rewards.N",
    "credit": "credit",
    "losses": "losses.N",
    "selection": "selection",
    "selection.curricula": "curriculum",
    "selection.replay": "replay",
    "league.matchmakers": "matchmaker",
    "league.keeping": "league.keeping",
    "league.schedules": "league.schedule",
    "rollout.plans": "rollout.plan",
    "run.sinks": "logging.sinks",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleDeclarations:
    """Declarations of a plug-in's module, with defaults for names that the module lacks."""

    # for plug-ins of any slot
    NEEDS_BY: Mapping[str, Mapping[Any, set[str]]] = field(default_factory=dict)
    """option -> value -> further names for NEEDS"""
    PRESETS: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """name -> options that reproduce a published variant"""
    REMOVED: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """option of an earlier version -> (its default, the last version that had it)"""
    PLUGINS: Sequence[str] = ()  # further plug-ins of the module
    PACKAGE: str | None = None  # the package that a sink imports

    # for estimators
    REQUIRES: Mapping[str, Collection[str]] = field(default_factory=dict)
    """what a configuration must also have; see ``config.parts.check_requires``"""
    GROUP_RELATIVE: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]] = False
    """whether the estimator compares episodes of one initial state, so that it learns nothing from
    a group of one; or the options for which it does so: {option: values}, or a list of these"""
    CRITIC: str = "value"  # the critic's estimate: "value" or "contribution" of a turn
    LEVEL: Literal["turn", "token"] = "turn"  # rows of a returned plain array

    # for losses and rewards
    TRAINS: bool = True  # whether a loss alone can train the policy
    CORRECTS: bool = False  # whether a loss corrects for stale weights; ``scale.lag`` needs it
    READS: str = ""  # "turn": a turn's reward depends only on this turn

    # for players: functions of the player's options
    style_of: Callable[..., str] | None = None  # returns the style of prompts that the player needs
    words_of: Callable[..., frozenset[str] | None] | None = (
        None  # words that the player can read; None: any
    )
    identity_of: Callable[..., Any] | None = None  # what the play depends on besides options
    is_mixture: Callable[..., bool] | None = None  # whether the player draws one of several players

    # for context strategies and knowledge
    GROWS: bool = False  # whether a strategy always keeps the whole history
    WORDS: Sequence[str] = ()  # words that a strategy writes into prompts
    EMBEDDING: str | None = None  # option of knowledge that names an embedding

    # for matchmakers and meta-solvers
    SOLVER: str | None = None  # option of a matchmaker that names a meta-solver
    SIDES: str | None = None  # option of a matchmaker that gives each side its own population
    TWO_SIDED: bool = False  # whether a meta-solver needs exactly two sides
    READS_PAYOFFS: bool = True  # whether a meta-solver uses payoffs


_NAMES = tuple(item.name for item in fields(ModuleDeclarations))


def declarations_of(module: ModuleType) -> ModuleDeclarations:
    """Return the current declarations of a plug-in's module."""
    return ModuleDeclarations(
        **{name: getattr(module, name) for name in _NAMES if hasattr(module, name)}
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """A plug-in: its slot, name, entry function and module with further declarations."""

    slot: str
    name: str
    function: Callable[..., Any]
    module: ModuleType

    def declared(self, name: str, default: Any) -> Any:
        """Return a declaration of the plug-in's function, otherwise of its module."""
        return getattr(self.function, name, getattr(self.module, name, default))

    @property
    def needs(self) -> frozenset[str]:
        """Names of the values that must be computed for this plug-in."""
        return current_needs(self.slot, self.declared("NEEDS", ()))

    @property
    def declarations(self) -> ModuleDeclarations:
        """Optional declarations of the plug-in's module."""
        return declarations_of(self.module)

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Named sets of options."""
        return self.declarations.PRESETS

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Keyword-only parameters of the entry function: the plug-in's whole configuration."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def summary(self) -> str:
        """First line of the entry function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundPlugin:
    """A plug-in with checked options; ``at`` resolves options that are schedules."""

    plugin: Plugin
    options: Mapping[str, Any]
    schedules: Mapping[str, Schedule]

    @property
    def needs(self) -> frozenset[str]:
        """Names of the values that must be computed for the plug-in with these options."""
        by_option = self.plugin.declarations.NEEDS_BY
        needs = (values.get(self.options.get(option), ()) for option, values in by_option.items())
        return self.plugin.needs.union(*(current_needs(self.plugin.slot, names) for names in needs))

    @property
    def group_relative(self) -> bool:
        """Whether an estimator with these options compares only episodes of one initial state."""
        declaration = self.plugin.declarations.GROUP_RELATIVE
        if isinstance(declaration, bool):
            return declaration
        options = {name: p.default for name, p in self.plugin.options.items()} | dict(self.options)
        return any(
            all(options.get(option) in values for option, values in case.items())
            for case in ([declaration] if isinstance(declaration, Mapping) else declaration)
        )

    def at(self, progress: float) -> dict[str, Any]:
        """Return the options at ``progress`` in [0, 1]."""
        return {
            **self.options,
            **{name: schedule(progress) for name, schedule in self.schedules.items()},
        }

    def __call__(self, *args: Any, progress: float = 0.0) -> Any:
        """Call the plug-in with these positional arguments and its options at ``progress``.

        Raises:
            PluginError: the plug-in raised an exception, or its output is wrong (``check_output``).
        """
        plugin = self.plugin
        options = self.at(progress) if self.schedules else self.options
        check_input = base_attribute(plugin.slot, "check_input")
        check_output = base_attribute(plugin.slot, "check_output")
        with PluginCall(self):
            if check_input is not None:
                check_input(self, *args)
            adapt: Any = base_attribute(plugin.slot, "adapt")
            function = plugin.function if adapt is None else adapt(plugin)
            output = function(*args, **options)
            if check_output is not None:
                check_output(self, output, *args)
        return output

    def __str__(self) -> str:
        return named(self.plugin.slot, self.plugin.name)


def with_options(
    plugin: Plugin, options: Mapping[str, Any] | None = None, *, preset: str | None = None
) -> BoundPlugin:
    """Return a plug-in with checked options; see ``registry.bind`` for arguments and errors."""
    label = f"{plugin.slot} {plugin.name!r}"
    merged_options: dict[str, Any] = {}
    if preset is not None:
        if preset not in plugin.presets:
            raise UnknownNameError(f"preset of {label}", preset, plugin.presets)
        merged_options.update(plugin.presets[preset])
    merged_options.update(_without_removed(plugin, options or {}, label))
    for key in merged_options:
        if key not in plugin.options:
            raise UnknownNameError(f"option of {label}", key, plugin.options)
    hints = _annotations(plugin.function, label)
    schedules = {
        key: _parse_schedule(value, hints[key], f"{label}, option {key!r}")
        for key, value in merged_options.items()
        if is_schedule(value) and _is_float(hints[key])
    }
    plain_options = {key: value for key, value in merged_options.items() if key not in schedules}
    try:
        model = _options_model(plugin.function, label, frozenset(schedules))
        checked_options = dict(model(**plain_options))
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(
            f"{label}, option {key!r}: {problem['msg']}, got {quoted(problem.get('input'))}."
        ) from None
    return BoundPlugin(plugin=plugin, options=checked_options, schedules=schedules)


def _without_removed(plugin: Plugin, options: Mapping[str, Any], label: str) -> dict[str, Any]:
    removed_options = plugin.declarations.REMOVED
    for name in removed_options.keys() & options.keys():
        default, version = removed_options[name]
        if options[name] != default:
            raise ConfigError(
                f"{label} has no option {name!r} any more: {name}={quoted(options[name])} needs "
                f"version {version}. It now always works as with {name}={default}; leave it out."
            )
    return {name: value for name, value in options.items() if name not in removed_options}


@cache
def _annotations(function: Callable[..., Any], label: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation can be any expression
        raise ConfigError(
            f"{label}: the annotations of its function cannot be "
            f"read: {type(error).__name__}: {error}."
        ) from error
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and key not in hints:
            raise ConfigError(
                f"{label}: its option {key!r} has no annotation; write such as {key}: float = 1.0."
            )
    return hints


def _is_float(hint: Any) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        return _is_float(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(part is type(None) or _is_float(part) for part in typing.get_args(hint))
    return hint is float


def _parse_schedule(value: Any, hint: Any, label: str) -> Schedule:
    schedule = parse(value, label)
    adapter = pydantic.TypeAdapter(hint, config=pydantic.ConfigDict(allow_inf_nan=False))
    for number in schedule.values:
        try:
            adapter.validate_python(number)
        except pydantic.ValidationError as error:
            raise ConfigError(
                f"{label}: {error.errors()[0]['msg']}, got {quoted(number)} in its schedule."
            ) from None
    return schedule


@cache
def _options_model(
    function: Callable[..., Any], label: str, schedule_options: frozenset[str]
) -> type[pydantic.BaseModel]:
    hints = _annotations(function, label)
    fields: dict[str, Any] = {
        key: (hints[key], ... if p.default is inspect.Parameter.empty else p.default)
        for key, p in inspect.signature(function).parameters.items()
        if p.kind is inspect.Parameter.KEYWORD_ONLY and key not in schedule_options
    }
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)
    return pydantic.create_model("Options", __config__=config, **fields)


def package_of(slot: str) -> str:
    """Return the dotted name of a slot's package."""
    return f"sparring.{PACKAGES.get(slot, slot)}"


def slot_noun(slot: str) -> str:
    """Return the noun for a plug-in of a slot, such as "sampler"."""
    return SLOTS.get(slot) or PARTS[slot]


def named(slot: str, name: str) -> str:
    """Return a plug-in's kind and name for messages, with its configuration key."""
    return f"{slot_noun(slot)} {name!r}" + (f" ({KEYS[slot]})" if slot in KEYS else "")


@cache
def base_attribute(slot: str, name: str) -> Any:
    """Return an attribute of a slot's base module, or None.

    A base module may have ``check_input(bound, *args)``, ``check_output(bound, output, *args)``,
    ``adapt(plugin)``, ``BASE_NEEDS`` (descriptions of names that NEEDS may have), ``NEEDS_FROM``
    (slots whose plug-ins NEEDS may name), and ``RENAMED`` (old names in NEEDS -> new names).
    """
    base = f"{package_of(slot)}.base"
    if slot in PARTS or importlib.util.find_spec(base) is None:
        return None
    return getattr(importlib.import_module(base), name, None)


def current_needs(slot: str, needs: Iterable[str]) -> frozenset[str]:
    """Return the current names for entries of NEEDS."""
    new_names: Mapping[str, set[str]] = base_attribute(slot, "RENAMED") or {}
    return frozenset().union(*(new_names.get(name, {name}) for name in needs))

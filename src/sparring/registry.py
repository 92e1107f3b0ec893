"""Finds plug-ins by file name, binds options to their signatures, suggests names for typos.

A slot is a package; each public module in it is a plug-in; the module's function of the same name is its
entry; the function's keyword-only parameters are its options. Adding a plug-in edits no existing file. Plug-ins
of other packages are found too: names with a dot, and entry points (``outside.py``).

A plug-in module may also declare:
    NEEDS      set of features it wants computed, e.g. {"values"}
    NEEDS_BY   option -> value -> set of further features, where they depend on an option
    PRESETS    name -> options that reproduce a published variant
    TRAINS     False for a loss that cannot train the policy alone: factors for other losses, or the critic's
    SUMMARY    one line for lists (otherwise the first line of the docstring)
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from sparring.errors import ConfigError, UnknownNameError
from sparring.guard import Call
from sparring.options import check_limits, checked, hints_of, is_float
from sparring.outside import entry_points, find, from_entry_point, is_outside
from sparring.schedule import Schedule, is_schedule, parse

log = logging.getLogger(__name__)

SLOTS = {
    "games": "game",
    "render": "renderer",
    "samplers": "sampler",
    "agents": "agent",
    "oracles": "oracle",
    "oracles.beliefs": "belief",
    "oracles.puzzles": "puzzle",
    "rewards": "reward",
    "credit": "advantage estimator",
    "features": "feature",
    "losses": "loss",
    "selection": "selection rule",
    "selection.curricula": "curriculum",
    "selection.replay": "replay rule",
    "league.matchmakers": "matchmaker",
    "rollout.plans": "rollout plan",
}
KEYS = {  # slot -> the configuration's key that names a plug-in of it, for errors
    "games": "games.N",
    "render": "renderer",
    "samplers": "sampler",
    "agents": "bots, evaluation.opponents",
    "oracles": "games.N.oracle",
    "oracles.beliefs": "games.N.oracle",
    "oracles.puzzles": "games.N.oracle",
    "rewards": "rewards.N",
    "credit": "credit",
    "losses": "losses.N",
    "selection": "selection",
    "selection.curricula": "curriculum",
    "selection.replay": "replay",
    "league.matchmakers": "matchmaker",
    "rollout.plans": "rollout.plan",
}
SUPPORT = "SUPPORT"  # a module that defines it is a helper of its slot, not a plug-in


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """One plug-in: its slot, its name, its entry function and the module that declares the rest."""

    slot: str
    name: str
    function: Callable[..., Any]
    module: ModuleType

    @property
    def needs(self) -> frozenset[str]:
        """Features this plug-in wants computed."""
        return frozenset(getattr(self.module, "NEEDS", ()))

    @property
    def trains(self) -> bool:
        """Whether a loss has a gradient of its own towards the policy."""
        return bool(getattr(self.module, "TRAINS", True))

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Named sets of options."""
        presets: Mapping[str, Mapping[str, Any]] = getattr(self.module, "PRESETS", {})
        return presets

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Keyword-only parameters of the entry function: the plug-in's whole configuration."""
        parameters = inspect.signature(self.function).parameters
        return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def summary(self) -> str:
        """First line of the entry function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A plug-in with checked options; numbers that were given as schedules are resolved by ``at``."""

    plugin: Plugin
    options: Mapping[str, Any]
    schedules: Mapping[str, Schedule]

    @property
    def needs(self) -> frozenset[str]:
        """Features that the plug-in wants computed with these options."""
        further: Mapping[str, Mapping[Any, set[str]]] = getattr(self.plugin.module, "NEEDS_BY", {})
        return self.plugin.needs.union(*(wanted.get(self.options.get(option), ()) for option, wanted in further.items()))

    def at(self, progress: float) -> dict[str, Any]:
        """Return the options at ``progress`` in [0, 1]."""
        return {**self.options, **{name: schedule(progress) for name, schedule in self.schedules.items()}}

    def __call__(self, *args: Any, progress: float = 0.0) -> Any:
        """Call the plug-in with these positional arguments and its options at ``progress``.

        Raises:
            PluginError: it raised an exception that is none of Sparring's, or gave what ``check_output`` of its slot refuses.
        """
        with Call(self):
            given = self.plugin.function(*args, **self.at(progress))
            check = _output_check(self.plugin.slot)
            if check is not None:
                check(self, given, *args)
        return given

    def __str__(self) -> str:
        return named(self.plugin.slot, self.plugin.name)


def named(slot: str, name: str) -> str:
    """Return a plug-in in words, with the configuration's key that names it."""
    return f"{SLOTS[slot]} {name!r}" + (f" ({KEYS[slot]})" if slot in KEYS else "")


@cache
def names(slot: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a slot, sorted: Sparring's own (whose errors see), and entry points of installed packages."""
    return tuple(sorted({*built_in(slot), *entry_points(slot)}))


def forget() -> None:
    """Look for plug-ins anew: packages may have come or gone."""
    for cached in (names, built_in, load):
        cached.cache_clear()


def known(slot: str, name: str) -> bool:
    """Return whether a name is one of a slot's plug-ins, or of one from outside."""
    return is_outside(name) or name in names(slot)


@cache
def built_in(slot: str) -> tuple[str, ...]:
    """Return the names of Sparring's own plug-ins of a slot, sorted.

    Raises:
        UnknownNameError: no such slot.
    """
    if slot not in SLOTS:
        raise UnknownNameError("slot", slot, SLOTS)
    package = importlib.import_module(f"sparring.{slot}")
    found = [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_") and not m.ispkg]
    return tuple(sorted(name for name in found if not _is_support(slot, name)))


def _is_support(slot: str, name: str) -> bool:
    """Return whether a module of a slot declares itself a helper (read from its text, without importing it)."""
    spec = importlib.util.find_spec(f"sparring.{slot}.{name}")
    loader = getattr(spec, "loader", None)
    source = loader.get_source(f"sparring.{slot}.{name}") if loader and hasattr(loader, "get_source") else None
    return f"\n{SUPPORT} = True" in (source or "")


def offering(slot: str, function: str) -> tuple[str, ...]:
    """Return the names of the plug-ins of a slot whose file has a function of this name too, sorted."""
    return tuple(plugin.name for plugin in loadable(slot) if hasattr(plugin.module, function))


def loadable(slot: str) -> list[Plugin]:
    """Return the plug-ins of a slot; an entry point of another package that cannot be imported is left out, with a warning."""
    found = []
    for name in names(slot):
        try:
            found.append(load(slot, name))
        except ConfigError as error:
            if name in built_in(slot):
                raise
            log.warning("%s", error)
    return found


@cache
def _output_check(slot: str) -> Callable[..., None] | None:
    """Return the function ``check_output(bound, given, *args)`` of a slot's base module, if it has one."""
    base = f"sparring.{slot}.base"
    if importlib.util.find_spec(base) is None:
        return None
    found: Callable[..., None] | None = getattr(importlib.import_module(base), "check_output", None)
    return found


@cache
def load(slot: str, name: str) -> Plugin:
    """Return a plug-in by slot and name; where an entry point has the name of one of Sparring's own, that one is meant.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: one from outside cannot be had.
    """
    if name in built_in(slot):
        module = importlib.import_module(f"sparring.{slot}.{name}")
        function = getattr(module, name)
    elif is_outside(name):
        function, module = find(slot, name, SLOTS[slot])
    elif name in names(slot):
        function, module = from_entry_point(entry_points(slot)[name], SLOTS[slot])
    else:
        raise UnknownNameError(SLOTS[slot], name, names(slot), f"See `sparring list {slot}`; others are named package.module.")
    return Plugin(slot=slot, name=name, function=function, module=module)


def bind(slot: str, name: str, options: Mapping[str, Any] | None = None, *, preset: str | None = None) -> Bound:
    """Return a plug-in with its options checked against its signature.

    Args:
        slot: one of ``SLOTS``.
        name: the plug-in's name.
        options: values for its keyword-only parameters; floats may be schedules, whose values keep the option's limits.
        preset: a name in the plug-in's ``PRESETS``; explicit options win over it.

    Raises:
        UnknownNameError: unknown slot, plug-in, preset or option.
        ConfigError: a value of the wrong type or outside its limits, or a required option left out.
    """
    return with_options(load(slot, name), options, preset=preset)


def with_options(plugin: Plugin, options: Mapping[str, Any] | None = None, *, preset: str | None = None) -> Bound:
    """Return a plug-in that is at hand with its options checked; as ``bind``, whose errors it raises."""
    where = f"{plugin.slot} {plugin.name!r}"
    merged: dict[str, Any] = {}
    if preset is not None:
        if preset not in plugin.presets:
            raise UnknownNameError(f"preset of {where}", preset, plugin.presets)
        merged.update(plugin.presets[preset])
    merged.update(options or {})
    for key in merged:
        if key not in plugin.options:
            raise UnknownNameError(f"option of {where}", key, plugin.options)
    hints = hints_of(plugin.function, plugin.options, where)
    schedules, plain = {}, {}
    for key, value in merged.items():
        if is_schedule(value) and is_float(hints.get(key)):
            schedules[key] = parse(value, f"{where}, option {key!r}")
            check_limits(schedules[key], hints[key], f"{where}, option {key!r}")
        else:
            plain[key] = value
    return Bound(plugin=plugin, options=checked(plugin.options, hints, plain, schedules, where), schedules=schedules)

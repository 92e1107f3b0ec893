"""A plug-in, and a plug-in with its options: what it declares, and how it is called."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from sparring.guard import Call
from sparring.schedule import Schedule

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
PARTS = {"environments.solver": "solver"}  # what else the folder of a plug-in may hold: slot.module
KEYS = {  # slot -> the configuration's key that names a plug-in of it, for errors
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
class Plugin:
    """One plug-in: its slot, its name, its entry function and the module that declares the rest."""

    slot: str
    name: str
    function: Callable[..., Any]
    module: ModuleType

    def declared(self, name: str, default: Any) -> Any:
        """Return what its function declares, one of several in a module, or else its module."""
        return getattr(self.function, name, getattr(self.module, name, default))

    @property
    def needs(self) -> frozenset[str]:
        """Names of what this plug-in wants computed."""
        return named_now(self.slot, self.declared("NEEDS", ()))

    @property
    def trains(self) -> bool:
        """Whether a loss has a gradient of its own towards the policy."""
        return bool(getattr(self.module, "TRAINS", True))

    @property
    def corrects(self) -> bool:
        """Whether a loss takes into account that plays come from older weights."""
        return bool(getattr(self.module, "CORRECTS", False))

    @property
    def critic(self) -> str:
        """What an estimator's column from the critic holds: "value" of a state, or another."""
        return str(getattr(self.module, "CRITIC", "value"))

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Named sets of options."""
        presets: Mapping[str, Mapping[str, Any]] = getattr(self.module, "PRESETS", {})
        return presets

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Keyword-only parameters of the entry function: the plug-in's whole configuration."""
        parameters = inspect.signature(self.function).parameters
        return {
            name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    @property
    def summary(self) -> str:
        """First line of the entry function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A plug-in with checked options.

    Numbers that were given as schedules are resolved by ``at``.
    """

    plugin: Plugin
    options: Mapping[str, Any]
    schedules: Mapping[str, Schedule]

    @property
    def needs(self) -> frozenset[str]:
        """Names of what the plug-in wants computed with these options."""
        further: Mapping[str, Mapping[Any, set[str]]] = getattr(self.plugin.module, "NEEDS_BY", {})
        found = (wanted.get(self.options.get(option), ()) for option, wanted in further.items())
        return self.plugin.needs.union(*(named_now(self.plugin.slot, names) for names in found))

    @property
    def group_relative(self) -> bool:
        """Whether an estimator compares plays of one start alone with these options."""
        declared = getattr(self.plugin.module, "GROUP_RELATIVE", False)
        if isinstance(declared, bool):
            return declared
        options = {name: p.default for name, p in self.plugin.options.items()} | dict(self.options)
        return any(
            all(options.get(option) in values for option, values in case.items())
            for case in ([declared] if isinstance(declared, Mapping) else declared)
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
            PluginError: it raised an exception that is none of Sparring's, or gave what
                ``check_output`` of its slot refuses.
        """
        options = self.at(progress) if self.schedules else self.options
        with Call(self):
            given = _entry(self.plugin)(*args, **options)
            check = _output_check(self.plugin.slot)
            if check is not None:
                check(self, given, *args)
        return given

    def __str__(self) -> str:
        return named(self.plugin.slot, self.plugin.name)


def word(slot: str) -> str:
    """Return what a plug-in of a slot, or a part of one, is called."""
    return SLOTS.get(slot) or PARTS[slot]


def named(slot: str, name: str) -> str:
    """Return a plug-in in words, with the configuration's key that names it."""
    return f"{word(slot)} {name!r}" + (f" ({KEYS[slot]})" if slot in KEYS else "")


@cache
def of_base(slot: str, name: str) -> Any:
    """Return what a slot's base module has under a name, or None.

    It may have ``check_output(bound, given, *args)``, ``adapted(plugin)``, ``GIVEN`` (what NEEDS
    may name, each with what it is), ``NEEDS_FROM`` (slots whose plug-ins' names NEEDS may name),
    and ``RENAMED`` (names in NEEDS of before -> those of now).
    """
    base = f"sparring.{slot}.base"
    if slot in PARTS or importlib.util.find_spec(base) is None:
        return None
    return getattr(importlib.import_module(base), name, None)


def _output_check(slot: str) -> Callable[..., None] | None:
    """Return what checks the output of a slot's plug-ins, if there is such a function."""
    found: Callable[..., None] | None = of_base(slot, "check_output")
    return found


def _entry(plugin: Plugin) -> Callable[..., Any]:
    """Return what is called of a plug-in.

    Its function, or that with what its slot lets it leave out.
    """
    adapted: Callable[[Plugin], Callable[..., Any]] | None = of_base(plugin.slot, "adapted")
    return plugin.function if adapted is None else adapted(plugin)


def named_now(slot: str, needs: Iterable[str]) -> frozenset[str]:
    """Return names in NEEDS by what they are called now."""
    renamed: Mapping[str, set[str]] = of_base(slot, "RENAMED") or {}
    return frozenset().union(*(renamed.get(name, {name}) for name in needs))

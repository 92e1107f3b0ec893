"""Finds plug-ins by file name, binds options to their signatures, suggests names for typos.

A slot is a package; each module in it with a function of its own name, or a class assigned to that
name (``nim = Nim``), is a plug-in. This is its entry, whose keyword-only parameters are its
options. Adding a plug-in edits no existing file. Plug-ins of other packages are found too: names
with a dot, and entry points (``outside.py``). A plug-in that is a folder may have further functions
(``parts.py``).

A plug-in module may also declare:
    NEEDS      names of what it wants computed, e.g. {"value"}; of an estimator, columns of the turn
               table
    NEEDS_BY   option -> value -> names of what it wants besides, where that depends on an option
    REQUIRES   what must stand beside it in a configuration; see ``config_parts.check_requires``
    GROUP_RELATIVE
               of an estimator: True where a play is compared with others of its start alone, so
               that a group of one teaches nothing; or option -> the values with which it is so,
               all options together, or a list of such cases
    PRESETS    name -> options that reproduce a published variant
    TRAINS     False for a loss that cannot train the policy alone: factors for other losses, or the
               critic's
    CORRECTS   True for a loss that takes into account that plays come from older weights, as its
               ratio is to the log-probabilities of the sampler: what ``scale.lag`` needs
    CRITIC     "contribution" for an estimator whose column from the critic is no value of a state,
               but what a turn adds to the return
    style_of, words_of, identity_of, is_mixture
               of a player: functions of its options; see ``measure.opponents.AgentSpec``
    SOLVER     option of a matchmaker that names a meta-solver
    EMBEDDING  option of knowledge that names an embedding
    TWO_SIDED  True for a meta-solver of two sides alone
    READS_PAYOFFS  False for a meta-solver that looks at no payoffs
    SUMMARY    one line for lists (otherwise the first line of the docstring)
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from typing import Any

from sparring.errors import ConfigError, UnknownNameError
from sparring.options import check_limits, checked, hints_of, is_float
from sparring.outside import entry_points, find, from_entry_point, is_outside
from sparring.plugin import KEYS, SLOTS, Bound, Plugin, named, named_now, of_base, word
from sparring.schedule import is_schedule, parse

__all__ = [
    "KEYS",
    "SLOTS",
    "Bound",
    "Plugin",
    "asks",
    "bind",
    "built_in",
    "forget",
    "forgets",
    "has_line",
    "known",
    "load",
    "loadable",
    "named",
    "names",
    "ordered",
    "with_options",
    "word",
]

log = logging.getLogger(__name__)
_further: list[Any] = []  # caches


@cache
def names(slot: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a slot, sorted.

    Sparring's own (whose errors see), and entry points of installed packages.
    """
    return tuple(sorted({*built_in(slot), *entry_points(slot)}))


def forget() -> None:
    """Look for plug-ins anew: packages may have come or gone."""
    for cached in (names, built_in, load, _standard, *_further):
        cached.cache_clear()


def forgets(cached: Any) -> None:
    """Let ``forget`` clear a further cache, of what was found by way of plug-ins."""
    _further.append(cached)


def known(slot: str, name: str) -> bool:
    """Return whether a name is one of a slot's plug-ins, or of one from outside."""
    return is_outside(name) or name in names(slot)


@cache
def built_in(slot: str) -> tuple[str, ...]:
    """Return the names of Sparring's own plug-ins of a slot, sorted.

    A module, or a package, is a plug-in if it has a function or class of its own name, and so is
    each public function of a module ``standard``. All others in a slot are helpers of its plug-ins.

    Raises:
        UnknownNameError: no such slot.
    """
    if slot not in SLOTS:
        raise UnknownNameError("slot", slot, SLOTS)
    package = importlib.import_module(f"sparring.{slot}")
    found = [m.name for m in pkgutil.iter_modules(package.__path__)]
    return tuple(sorted({*(name for name in found if _is_plugin(slot, name)), *_standard(slot)}))


@cache
def _standard(slot: str) -> frozenset[str]:
    """Return the public functions of a slot's module ``standard``, each of which is a plug-in."""
    text = _text_of(importlib.util.find_spec(f"sparring.{slot}.standard"))
    return frozenset(re.findall(r"^def ([a-z]\w*)\(", text or "", re.MULTILINE))


def _is_plugin(slot: str, name: str) -> bool:
    """Return whether a module of a slot has a function of its own name, or a class under it."""
    spec = importlib.util.find_spec(f"sparring.{slot}.{name}")
    return has_line(spec, f"def {name}(") or has_line(spec, f"{name} = ")


def has_line(spec: ModuleSpec | None, begins: str) -> bool:
    """Return whether a line of a module begins so.

    This is read from its text, without importing it.
    """
    text = _text_of(spec)
    return text is not None and re.search(rf"^{re.escape(begins)}", text, re.MULTILINE) is not None


def _text_of(spec: ModuleSpec | None) -> str | None:
    """Return the text of a module, or None where it has none."""
    source = getattr(getattr(spec, "loader", None), "get_source", None)
    text: str | None = source(spec.name) if source and spec else None
    return text


def loadable(slot: str) -> list[Plugin]:
    """Return the plug-ins of a slot.

    An entry point of another package that cannot be imported is left out, with a warning.
    """
    found = []
    for name in names(slot):
        try:
            found.append(load(slot, name))
        except ConfigError as error:
            if name in built_in(slot):
                raise
            log.warning("%s", error)
    return found


def _check_needs(plugin: Plugin) -> Plugin:
    """Return the plug-in, if everything that its NEEDS name is known.

    Raises:
        UnknownNameError: something is not; the nearest that is known is named.
    """
    given: Mapping[str, str] = of_base(plugin.slot, "GIVEN") or {}
    sources: tuple[str, ...] = of_base(plugin.slot, "NEEDS_FROM") or ()
    further: Mapping[str, Mapping[Any, set[str]]] = getattr(plugin.module, "NEEDS_BY", {})
    wanted = plugin.needs.union(
        *(named_now(plugin.slot, names) for values in further.values() for names in values.values())
    )
    for need in sorted(wanted):
        if need not in given and not any(known(slot, need) for slot in sources):
            there = {*given, *(name for slot in sources for name in names(slot))}
            raise UnknownNameError(
                f"name in NEEDS of {named(plugin.slot, plugin.name)}", need, there
            )
    return plugin


_CRITIC = "{name: value_loss, weight: 0.5}]'"
FIELD_NAMES = {  # algorithms that are a pair of an estimator and losses here -> what to write
    "ppo": f"PPO is credit.name=gae 'losses=[{{name: ppo_clip}}, {_CRITIC}.",
    "a2c": f"A2C is credit.name=gae 'losses=[{{name: policy_gradient}}, {_CRITIC}.",
    "reinforce": "REINFORCE is credit.name=outcome 'losses=[{name: policy_gradient}]'; with a "
    "baseline for each role it is credit.name=rae.",
    "dr_grpo": "Dr. GRPO is 'credit={name: grpo, preset: dr_grpo}' with rollout.group_size=8.",
    "dapo": "DAPO is credit.name=grpo 'losses=[{name: ppo_clip, preset: dapo}]' "
    "selection.name=equal_groups rollout.group_size=8.",
}
FIELD_NAMES["actor_critic"] = FIELD_NAMES["a2c"]


@cache
def load(slot: str, name: str) -> Plugin:
    """Return a plug-in by slot and name.

    Where an entry point has the name of one of Sparring's own, that one is meant.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: one from outside cannot be had.
    """
    if name in built_in(slot):
        own = "standard" if name in _standard(slot) else name
        module = importlib.import_module(f"sparring.{slot}.{own}")
        function = getattr(module, name)
    elif is_outside(name):
        function, module = find(slot, name, SLOTS[slot])
    elif name in names(slot):
        function, module = from_entry_point(entry_points(slot)[name], SLOTS[slot])
    else:
        in_other_words = FIELD_NAMES.get(name.lower()) if slot in ("credit", "losses") else None
        raise UnknownNameError(
            SLOTS[slot],
            name,
            names(slot),
            in_other_words or f"See `sparring list {slot}`; others are named package.module.",
            every=in_other_words is None,
        )
    return _check_needs(Plugin(slot=slot, name=name, function=function, module=module))


def asks(bound: Bound) -> frozenset[str]:
    """Return the parts of a run that it takes to compute a plug-in's columns.

    "critic", "reference", "process", "tree", "candidates", "playouts".
    """
    columns = (
        ordered(bound.needs)
        if "columns" in (of_base(bound.plugin.slot, "NEEDS_FROM") or ())
        else ()
    )
    plugins = (bound.plugin, *(load("columns", name) for name in columns))
    return frozenset().union(*(plugin.declared("ASKS", ()) for plugin in plugins))


def ordered(needs: Iterable[str], within: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return columns with all that they need, in an order in which each can be computed.

    Args:
        needs: their names.
        within: the columns that these are needed for, the first one first.

    Raises:
        ConfigError: a column needs itself.
    """
    found: dict[str, None] = {}
    for name in sorted(needs):
        if name in within:
            raise ConfigError(
                f"column {name!r} needs itself: {' -> '.join((*within, name))}. Leave one out of "
                "NEEDS."
            )
        if name not in found:
            found |= dict.fromkeys((*ordered(bind("columns", name).needs, (*within, name)), name))
    return tuple(found)


def bind(
    slot: str, name: str, options: Mapping[str, Any] | None = None, *, preset: str | None = None
) -> Bound:
    """Return a plug-in with its options checked against its signature.

    Args:
        slot: one of ``SLOTS``.
        name: the plug-in's name.
        options: values for its keyword-only parameters; floats may be schedules, whose values keep
            the option's limits.
        preset: a name in the plug-in's ``PRESETS``; explicit options win over it.

    Raises:
        UnknownNameError: unknown slot, plug-in, preset or option.
        ConfigError: a value of the wrong type or outside its limits, or a required option left out.
    """
    return with_options(load(slot, name), options, preset=preset)


def with_options(
    plugin: Plugin, options: Mapping[str, Any] | None = None, *, preset: str | None = None
) -> Bound:
    """Return a plug-in that is at hand with its options checked.

    As ``bind``, whose errors it raises.
    """
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
    return Bound(
        plugin=plugin,
        options=checked(plugin.function, plugin.options, plain, schedules, where),
        schedules=schedules,
    )

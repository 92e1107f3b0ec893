"""Finds plug-ins by file name, binds options to their signatures, suggests names for typos.

A slot is a package; each module in it with a function of its own name, or a class assigned to that
name (``nim = Nim``), is a plug-in. This is its entry, whose keyword-only parameters are its
options. Adding a plug-in edits no existing file. Plug-ins of other packages are found too: names
with a dot, and entry points (``outside.py``). A plug-in that is a folder may have parts: modules of
the folder with a function of the plug-in's name, such as ``environments/sudoku/solver.py``.

A plug-in module may also declare NEEDS, the names of what it needs computed, such as {"value"} (of
an estimator, columns of the turn table), and the names of ``plugin.ModuleDeclarations``.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sparring.config.plugins.outside import (
    entry_points,
    find,
    from_entry_point,
    imported,
    is_outside,
    read_module,
)
from sparring.config.plugins.plugin import (
    KEYS,
    SLOTS,
    BoundPlugin,
    Plugin,
    named,
    named_now,
    of_base,
    package_of,
    with_options,
    word,
)
from sparring.core.errors import ConfigError, UnknownNameError

__all__ = [
    "KEYS",
    "SLOTS",
    "BoundPlugin",
    "Plugin",
    "bind",
    "built_in",
    "clear_caches",
    "known",
    "load",
    "load_part",
    "loadable",
    "named",
    "names",
    "offering",
    "ordered",
    "required_services",
    "with_options",
    "word",
]

log = logging.getLogger(__name__)


@cache
def names(slot: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a slot, sorted: Sparring's own and entry points."""
    return tuple(sorted({*built_in(slot), *entry_points(slot)}))


def clear_caches() -> None:
    """Clear the caches of plug-ins, as packages may have changed."""
    for cached in (names, built_in, load, load_part, _standard):
        cached.cache_clear()


def known(slot: str, name: str) -> bool:
    """Return whether a name is a plug-in of a slot, or looks like an outside one."""
    return is_outside(name) or name in names(slot)


@cache
def built_in(slot: str) -> tuple[str, ...]:
    """Return the names of Sparring's own plug-ins of a slot, sorted.

    A plug-in is a module or package with a function or class of its own name, or a public function
    of a module ``standard``. Other modules of a slot are helpers.

    Raises:
        UnknownNameError: there is no such slot.
    """
    if slot not in SLOTS:
        raise UnknownNameError("slot", slot, SLOTS)
    folders = importlib.import_module(package_of(slot)).__path__
    stems = {path.with_suffix("") for folder in folders for path in Path(folder).iterdir()}
    modules = {
        stem.name for stem in stems if _has_line(stem, f"def {stem.name}(", f"{stem.name} = ")
    }
    return tuple(sorted(modules | _standard(slot)))


@cache
def _standard(slot: str) -> frozenset[str]:
    """Return the public functions of a slot's module ``standard``, which are plug-ins."""
    folders = importlib.import_module(package_of(slot)).__path__
    texts = (read_module(Path(folder, "standard")) or "" for folder in folders)
    return frozenset(re.findall(r"^def ([a-z]\w*)\(", "\n".join(texts), re.MULTILINE))


def _has_line(stem: Path, *begins: str) -> bool:
    """Return whether a line of a module's text begins in one of these ways."""
    text = read_module(stem)
    pattern = "|".join(map(re.escape, begins))
    return text is not None and bool(re.search(rf"^(?:{pattern})", text, re.MULTILINE))


def loadable(slot: str, among: Iterable[str] | None = None) -> list[Plugin]:
    """Return the plug-ins of a slot, all or some; warn of entry points that fail to import."""
    plugins = []
    for name in names(slot) if among is None else among:
        try:
            plugins.append(load(slot, name))
        except ConfigError as error:
            if name in built_in(slot):
                raise
            log.warning("%s", error)
    return plugins


def _check_needs(plugin: Plugin) -> Plugin:
    """Return the plug-in if all names in its NEEDS are known."""
    basic: Mapping[str, str] = of_base(plugin.slot, "GIVEN") or {}
    sources: tuple[str, ...] = of_base(plugin.slot, "NEEDS_FROM") or ()
    by_option = plugin.declarations.NEEDS_BY
    needs = [names for values in by_option.values() for names in values.values()]
    for need in sorted(plugin.needs.union(*(named_now(plugin.slot, names) for names in needs))):
        if need not in basic and not any(known(slot, need) for slot in sources):
            choices = {*basic, *(name for slot in sources for name in names(slot))}
            raise UnknownNameError(
                f"name in NEEDS of {named(plugin.slot, plugin.name)}", need, choices
            )
    return plugin


_CRITIC = "{name: value_loss, weight: 0.5}]'"
FIELD_NAMES = {  # algorithms that are an estimator with losses here -> what to write
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
    """Return a plug-in by slot and name; Sparring's own win over entry points.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: an outside plug-in cannot be loaded.
    """
    if name in built_in(slot):
        module_name = "standard" if name in _standard(slot) else name
        module = importlib.import_module(f"{package_of(slot)}.{module_name}")
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


@cache
def load_part(slot: str, name: str, part: str) -> Plugin | None:
    """Return a part of a plug-in, such as the solver of a game, or None.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: an outside plug-in or its part cannot be imported.
    """
    plugin = load(slot, name)
    folders = getattr(plugin.module, "__path__", ())
    function = name if name in built_in(slot) else plugin.function.__name__
    if not any(_has_line(Path(folder, part), f"def {function}(") for folder in folders):
        return None
    path, of_slot = f"{plugin.module.__name__}.{part}", f"{slot}.{part}"
    if name in built_in(slot):
        module = importlib.import_module(path)
        entry = getattr(module, function)
    else:
        entry, module = imported(path, function, named(of_slot, name))
    return Plugin(slot=of_slot, name=name, function=entry, module=module)


def offering(slot: str, part: str, line: str) -> tuple[str, ...]:
    """Return the sorted names of Sparring's own plug-ins whose part has a line, without imports.

    Args:
        slot: of the plug-ins.
        part: module in the plug-ins' folders.
        line: beginning of the line, such as ``def reference(``.
    """
    folders = importlib.import_module(package_of(slot)).__path__
    return tuple(
        name
        for name in built_in(slot)
        if any(_has_line(Path(folder, name, part), line) for folder in folders)
    )


def required_services(bound: BoundPlugin) -> frozenset[str]:
    """Return the parts of a run that a plug-in's columns need.

    Parts are "critic", "reference", "process", "tree", "candidates" and "playouts".
    """
    plugins = [bound.plugin]
    if "columns" in (of_base(bound.plugin.slot, "NEEDS_FROM") or ()):
        plugins += [load("columns", name) for name in ordered(bound.needs)]
    return frozenset().union(*(plugin.declared("REQUIRED_SERVICES", ()) for plugin in plugins))


def ordered(needs: Iterable[str], within: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return columns with all columns that they need, in an order for computing them.

    Args:
        needs: names of the columns.
        within: columns that need these, the first one first.

    Raises:
        ConfigError: a column needs itself.
    """
    columns: dict[str, None] = {}
    for name in sorted(needs):
        if name in within:
            raise ConfigError(
                f"column {name!r} needs itself: {' -> '.join((*within, name))}. Leave one out of "
                "NEEDS."
            )
        if name not in columns:
            columns |= dict.fromkeys((*ordered(bind("columns", name).needs, (*within, name)), name))
    return tuple(columns)


def bind(
    slot: str, name: str, options: Mapping[str, Any] | None = None, *, preset: str | None = None
) -> BoundPlugin:
    """Return a plug-in with its options checked against its signature.

    Args:
        slot: one of ``SLOTS``.
        name: the plug-in's name.
        options: values of its keyword-only parameters; floats may be schedules within the option's
            limits.
        preset: a name in the plug-in's ``PRESETS``; explicit options win over it.

    Raises:
        UnknownNameError: the slot, plug-in, preset or option is unknown.
        ConfigError: a value has the wrong type, is outside its limits, or is missing.
    """
    return with_options(load(slot, name), options, preset=preset)

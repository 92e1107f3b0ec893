"""Finds plug-ins by file name, checks their options, and suggests names for typing errors.

A slot is a package of plug-ins. A plug-in is a module of the slot with a function of the module's
name, or with a class assigned to this name (``nim = Nim``). The function's keyword-only parameters
are the plug-in's options. So a new plug-in needs no change of existing files. Plug-ins of other
packages are also found, by names with a dot and by entry points (``outside.py``). A plug-in that is
a folder may have parts: modules with a function of the plug-in's name, such as
``environments/sudoku/solver.py``.

A plug-in module may declare NEEDS, the names of values that must be computed for it. For example,
an estimator may need the column {"value"} of the turn table. ``plugin.ModuleDeclarations`` lists
the other declarations.
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
    import_entry,
    is_outside,
    read_module,
)
from sparring.config.plugins.plugin import (
    KEYS,
    SLOTS,
    BoundPlugin,
    Plugin,
    base_attribute,
    current_needs,
    named,
    package_of,
    slot_noun,
    with_options,
)
from sparring.core.errors import ConfigError, UnknownNameError

__all__ = [
    "KEYS",
    "SLOTS",
    "BoundPlugin",
    "Plugin",
    "bind",
    "bridges",
    "built_in",
    "clear_caches",
    "is_known",
    "load",
    "load_all",
    "load_part",
    "named",
    "names",
    "names_with_line_in_part",
    "required_services",
    "slot_noun",
    "sort_columns",
    "with_options",
]

log = logging.getLogger(__name__)


@cache
def names(slot: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a slot, sorted: Sparring's own and entry points."""
    return tuple(sorted({*built_in(slot), *entry_points(slot)}))


def clear_caches() -> None:
    """Clear the caches of plug-ins, after packages have changed."""
    for function in (names, built_in, bridges, load, load_part, _standard_names):
        function.cache_clear()


def is_known(slot: str, name: str) -> bool:
    """Return whether a slot has a plug-in of this name, or the name has a dot: an outside one."""
    return is_outside(name) or name in names(slot) or name in bridges(slot)


@cache
def bridges(slot: str) -> tuple[str, ...]:
    """Return the names of plug-ins over libraries that Sparring does not install, sorted.

    Such plug-ins are modules of a slot's package ``bridges``; ``names`` does not have them.
    """
    try:
        stems = _stems(f"{package_of(slot)}.bridges")
    except ModuleNotFoundError:
        return ()
    return tuple(sorted(stem.name for stem in stems if _has_line(stem, f"{stem.name} = ")))


def _stems(package: str) -> set[Path]:
    """Return the paths of a package's modules, without suffix."""
    folders = importlib.import_module(package).__path__
    return {path.with_suffix("") for folder in folders for path in Path(folder).iterdir()}


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
    modules = {
        stem.name
        for stem in _stems(package_of(slot))
        if _has_line(stem, f"def {stem.name}(", f"{stem.name} = ")
    }
    return tuple(sorted(modules | _standard_names(slot)))


@cache
def _standard_names(slot: str) -> frozenset[str]:
    folders = importlib.import_module(package_of(slot)).__path__
    texts = (read_module(Path(folder, "standard")) or "" for folder in folders)
    return frozenset(re.findall(r"^def ([a-z]\w*)\(", "\n".join(texts), re.MULTILINE))


def _has_line(stem: Path, *prefixes: str) -> bool:
    text = read_module(stem)
    pattern = "|".join(map(re.escape, prefixes))
    return text is not None and bool(re.search(rf"^(?:{pattern})", text, re.MULTILINE))


def load_all(slot: str, subset: Iterable[str] | None = None) -> list[Plugin]:
    """Return all plug-ins of a slot, or a subset; warn of entry points that cannot be imported."""
    plugins = []
    for name in names(slot) if subset is None else subset:
        try:
            plugins.append(load(slot, name))
        except ConfigError as error:
            if name in built_in(slot):
                raise
            log.warning("%s", error)
    return plugins


def _check_needs(plugin: Plugin) -> Plugin:
    base_columns: Mapping[str, str] = base_attribute(plugin.slot, "BASE_NEEDS") or {}
    sources: tuple[str, ...] = base_attribute(plugin.slot, "NEEDS_FROM") or ()
    by_option = plugin.declarations.NEEDS_BY
    option_needs = [need for values in by_option.values() for need in values.values()]
    for need in sorted(
        plugin.needs.union(
            *(current_needs(plugin.slot, option_need) for option_need in option_needs)
        )
    ):
        if need not in base_columns and not any(is_known(slot, need) for slot in sources):
            choices = {*base_columns, *(name for slot in sources for name in names(slot))}
            raise UnknownNameError(
                f"name in NEEDS of {named(plugin.slot, plugin.name)}", need, choices
            )
    return plugin


_VALUE_LOSS = "{name: value_loss, weight: 0.5}]'"
ALGORITHM_HINTS = {  # name of a common algorithm -> estimator and losses to write for it
    "ppo": f"PPO is credit.name=gae 'losses=[{{name: ppo_clip}}, {_VALUE_LOSS}.",
    "a2c": f"A2C is credit.name=gae 'losses=[{{name: policy_gradient}}, {_VALUE_LOSS}.",
    "reinforce": "REINFORCE is credit.name=outcome 'losses=[{name: policy_gradient}]'; with a "
    "baseline for each role it is credit.name=rae.",
    "dr_grpo": "Dr. GRPO is 'credit={name: grpo, preset: dr_grpo}' with rollout.group_size=8.",
    "dapo": "DAPO is credit.name=grpo 'losses=[{name: ppo_clip, preset: dapo}]' "
    "selection.name=equal_groups rollout.group_size=8.",
}
ALGORITHM_HINTS["actor_critic"] = ALGORITHM_HINTS["a2c"]


@cache
def load(slot: str, name: str) -> Plugin:
    """Return a plug-in by slot and name; Sparring's own plug-ins precede entry points.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: an outside plug-in cannot be loaded.
    """
    if name in built_in(slot):
        module_name = "standard" if name in _standard_names(slot) else name
        module = importlib.import_module(f"{package_of(slot)}.{module_name}")
        function = getattr(module, name)
    elif name in bridges(slot):
        module = importlib.import_module(f"{package_of(slot)}.bridges.{name}")
        function = getattr(module, name)
    elif is_outside(name):
        function, module = find(slot, name, SLOTS[slot])
    elif name in names(slot):
        function, module = from_entry_point(entry_points(slot)[name], SLOTS[slot])
    else:
        hint = ALGORITHM_HINTS.get(name.lower()) if slot in ("credit", "losses") else None
        raise UnknownNameError(
            SLOTS[slot],
            name,
            (*names(slot), *bridges(slot)),
            hint or f"See `sparring list {slot}`; others are named package.module.",
            list_all=hint is None,
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
    function_name = name if name in built_in(slot) else plugin.function.__name__
    if not any(_has_line(Path(folder, part), f"def {function_name}(") for folder in folders):
        return None
    path, part_slot = f"{plugin.module.__name__}.{part}", f"{slot}.{part}"
    if name in built_in(slot):
        module = importlib.import_module(path)
        part_function = getattr(module, function_name)
    else:
        part_function, module = import_entry(path, function_name, named(part_slot, name))
    return Plugin(slot=part_slot, name=name, function=part_function, module=module)


def names_with_line_in_part(slot: str, part: str, line: str) -> tuple[str, ...]:
    """Return the names of Sparring's own plug-ins with a certain line in a part, without imports.

    Args:
        slot: slot of the plug-in.
        part: name of the part, a module in the plug-in's folder.
        line: beginning of the line, such as ``def reference(``.
    """
    folders = importlib.import_module(package_of(slot)).__path__
    return tuple(
        name
        for name in built_in(slot)
        if any(_has_line(Path(folder, name, part), line) for folder in folders)
    )


def required_services(bound: BoundPlugin) -> frozenset[str]:
    """Return the services of a run that a plug-in's columns need.

    Services are "critic", "reference", "process", "tree", "candidates" and "playouts".
    """
    plugins = [bound.plugin]
    if "columns" in (base_attribute(bound.plugin.slot, "NEEDS_FROM") or ()):
        plugins += [load("columns", name) for name in sort_columns(bound.needs)]
    return frozenset().union(*(plugin.declared("REQUIRED_SERVICES", ()) for plugin in plugins))


def sort_columns(needs: Iterable[str], ancestors: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return columns, and all columns that these need, in the order of computation.

    Args:
        needs: names of the columns.
        ancestors: columns that need these columns, outermost first.

    Raises:
        ConfigError: a column needs itself.
    """
    columns: dict[str, None] = {}
    for name in sorted(needs):
        if name in ancestors:
            raise ConfigError(
                f"column {name!r} needs itself: {' -> '.join((*ancestors, name))}. Remove one of "
                "these names from NEEDS."
            )
        if name not in columns:
            needed_columns = sort_columns(bind("columns", name).needs, (*ancestors, name))
            columns |= dict.fromkeys((*needed_columns, name))
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
        preset: a name in the plug-in's ``PRESETS``; ``options`` override its values.

    Raises:
        UnknownNameError: the slot, plug-in, preset or option is unknown.
        ConfigError: a value has the wrong type, is outside its limits, or is missing.
    """
    return with_options(load(slot, name), options, preset=preset)

"""Parts of plug-ins that are folders: a module of the folder with a function of the plug-in's name.

An environment's solver is one: ``games/sudoku/solver.py`` has a function ``sudoku``, whose options
are bound as those of any plug-in. A plug-in from outside that is a package has parts too.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib.machinery import PathFinder

from sparring import registry
from sparring.outside import imported
from sparring.registry import Plugin

__all__ = ["load_part", "offering"]


def offering(slot: str, part: str, line: str) -> tuple[str, ...]:
    """Return the names, sorted, of Sparring's own plug-ins of a slot whose part has such a line.

    Texts are read, and nothing is imported.

    Args:
        slot: of the plug-ins.
        part: a module of their folders.
        line: how the line begins, such as ``def reference(``.
    """
    return tuple(name for name in registry.built_in(slot) if _offers(slot, name, part, line))


def _offers(slot: str, name: str, part: str, line: str) -> bool:
    """Return whether a module in the folder of one of Sparring's own plug-ins has such a line."""
    spec = importlib.util.find_spec(f"sparring.{slot}.{name}")
    places = None if spec is None else spec.submodule_search_locations
    found = places and PathFinder.find_spec(f"sparring.{slot}.{name}.{part}", places)
    return registry.has_line(found or None, line)


@cache
def load_part(slot: str, name: str, part: str) -> Plugin | None:
    """Return a part of a plug-in, such as the solver of a game; None where it has none.

    Raises:
        UnknownNameError: the slot has no plug-in of this name.
        ConfigError: the plug-in, or its part, is from outside and cannot be imported.
    """
    plugin = registry.load(slot, name)
    module = f"{plugin.module.__name__}.{part}"
    function = name if name in registry.built_in(slot) else plugin.function.__name__
    if not hasattr(plugin.module, "__path__"):
        return None
    if not registry.has_line(importlib.util.find_spec(module), f"def {function}("):
        return None
    where = f"{slot}.{part}"
    if name in registry.built_in(slot):
        found = importlib.import_module(module)
        return Plugin(slot=where, name=name, function=getattr(found, function), module=found)
    entry, found = imported(module, function, registry.named(where, name))
    return Plugin(slot=where, name=name, function=entry, module=found)


registry.forgets(load_part)

"""Plug-ins from outside: modules of other packages, named with a dot, and entry points.

    rewards: [{name: my_package.short_replies}]     the module my_package.short_replies and its function short_replies, or
                                                    the function short_replies of the module my_package

A module is a plug-in if it says of which slot, in a line of its own: `SLOT = "rewards"`. The line is read from the module's text
before anything is imported, so that a recipe of a stranger can name plug-ins alone, not any function of any package. The current
folder is not searched: install the package (`pip install -e .`), or name its folder in PYTHONPATH.

An installed package may give a plug-in a short name, by an entry point of the group `sparring.SLOT`:

    [project.entry-points."sparring.rewards"]
    short_replies = "my_package.short_replies"
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import re
import traceback
from collections.abc import Callable
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from sparring.errors import DEBUG, ConfigError, quoted

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_SLOT = re.compile(r"""^SLOT\s*(?::[^=\n]*)?=\s*["']([\w.]+)["']""", re.MULTILINE)

Found = tuple[Callable[..., Any], ModuleType]
_loaded: dict[str, ModuleType] = {}


def is_outside(name: str) -> bool:
    """Return whether a name is of a plug-in from outside: names of Python with dots between."""
    return _NAME.fullmatch(name) is not None


def find(slot: str, name: str, what: str) -> Found:
    """Return the function and the module of a plug-in that is named with a dot.

    Args:
        slot: of the plug-in.
        name: ``package.module``, whose function has the module's name, or ``module.function``; the first that is a plug-in counts.
        what: kind of plug-in, for errors.

    Raises:
        ConfigError: there is no such module, it is no plug-in of this slot, or it cannot be imported; the message says what to write.
    """
    where = f"{what} {quoted(name)}"
    parent, _, last = name.rpartition(".")
    seen: list[tuple[str, str]] = []  # modules that exist and are of another slot, or of none
    for module in (name, parent):
        text = _text(module)
        declared = _SLOT.search(text) if text is not None else None
        if declared and declared[1] == slot:
            return _imported(module, last, where)
        if text is not None:
            seen.append((module, declared[1] if declared else ""))
    if not seen:
        top = name.split(".")[0]
        raise ConfigError(
            f"{where}: there is no module {parent!r} here. Install the package of {top!r} into this environment (`pip install -e .` in its "
            "folder), or name the folder that holds it in PYTHONPATH."
        )
    module, other = next(((module, other) for module, other in seen if other), seen[0])
    if other:
        raise ConfigError(f"{where}: the module {module!r} is a plug-in of {other!r}, not of {slot!r}.")
    raise ConfigError(f"{where}: the module {module!r} is no plug-in. Write the line SLOT = {slot!r} into it, if it is meant to be one.")


def slot_of(name: str) -> str | None:
    """Return the slot that the module of such a name declares; None where there is no plug-in of this name."""
    texts = (_text(module) for module in (name, name.rpartition(".")[0])) if is_outside(name) else ()
    return next((found[1] for text in texts if text is not None and (found := _SLOT.search(text))), None)


def entry_points(slot: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a slot by name."""
    return {point.name: point for point in metadata.entry_points(group=f"sparring.{slot}") if point.name.isidentifier()}


def from_entry_point(point: metadata.EntryPoint, what: str) -> Found:
    """Return the function and the module of an entry point: ``module``, whose function has the entry point's name, or ``module:function``.

    Raises:
        ConfigError: it cannot be imported.
    """
    distribution = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return _imported(point.module, point.attr or point.name, f"{what} {point.name!r}, an entry point{distribution}")


def _imported(module: str, function: str, where: str) -> Found:
    """Import a module and return its function.

    Raises:
        ConfigError: it raises as it is imported, or has no such function.
    """
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        at = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if len(frames) > 1 else ""
        said = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"{where}: importing {module!r} failed{at}: {type(error).__name__}: {said}. {DEBUG}=1 shows the whole trace."
        ) from error
    entry = getattr(found, function, None)
    if not callable(entry):
        raise ConfigError(f"{where}: the module {module!r} has no function {function!r}; it is what the plug-in's name calls.")
    _loaded[module] = found
    return entry, found


def _text(module: str) -> str | None:
    """Return the text of a module, found without importing it or a package above it; None where there is none."""
    spec = _spec(module)
    loader: Any = getattr(spec, "loader", None)
    if spec is None or not hasattr(loader, "get_source"):
        return None
    try:
        text: str | None = loader.get_source(spec.name)
    except (ImportError, OSError, SyntaxError):
        return None
    return text or ""


def _spec(module: str) -> ModuleSpec | None:
    """Return where a module is, or None."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for number in range(len(rest)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            name = ".".join([top, *rest[: number + 1]])
            spec = importlib.machinery.PathFinder.find_spec(name, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return None
    return spec


def loaded() -> dict[str, dict[str, str]]:
    """Return what this process has imported of plug-ins from outside: module -> package and version if installed, digest of its file."""
    found = {}
    for name, module in sorted(_loaded.items()):
        packages = metadata.packages_distributions().get(name.split(".")[0], ())
        path = getattr(module, "__file__", None)
        found[name] = {
            "package": ", ".join(f"{package} {metadata.version(package)}" for package in dict.fromkeys(packages)),
            "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else "",
        }
    return found

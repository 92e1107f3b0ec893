"""Plug-ins from outside: modules of other packages, named with a dot, and entry points.

    rewards: [{name: my_package.short_replies}]     the module my_package.short_replies and its
    function short_replies, or
                                                    the function short_replies of the module
                                                    my_package, which lists it

A module is a plug-in if it says of which slot, by an assignment at its top: `SLOT = "rewards"`. The
text is read before anything is imported, so that a recipe of a stranger can name plug-ins alone,
not any function of any package. The plug-in is the function of the module's name; a module with
others, or with several, lists them: `PLUGINS = ("short_replies", "long_replies")`. The command
`sparring` does not search the current folder: install the package (`pip install -e .`), or name its
folder in PYTHONPATH.

An installed package may give a plug-in a short name, by an entry point of the group
`sparring.SLOT`:

    [project.entry-points."sparring.rewards"]
    short_replies = "my_package.short_replies"
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import re
import traceback
from collections.abc import Callable
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from sparring import spelling
from sparring.errors import DEBUG, ConfigError, quoted

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
# where the text is no Python that could be read
_SLOT = re.compile(r"""^SLOT\s*=\s*["']([\w.]+)["']""", re.MULTILINE)

Found = tuple[Callable[..., Any], ModuleType]
_loaded: dict[str, str] = {}  # module -> digest of its text as it was imported


def is_outside(name: str) -> bool:
    """Return whether a name is of a plug-in from outside.

    Names of Python with dots between, not of Sparring's own modules.
    """
    return _NAME.fullmatch(name) is not None and not name.startswith("sparring.")


def find(slot: str, name: str, what: str) -> Found:
    """Return the function and the module of a plug-in that is named with a dot.

    Args:
        slot: of the plug-in.
        name: ``package.module``, whose function has the module's name, or ``module.function``; the
            first that is a plug-in counts.
        what: kind of plug-in, for errors.

    Raises:
        ConfigError: there is no such module, it is no plug-in of this slot, or it cannot be
            imported; the message says what to write.
    """
    where = f"{what} {quoted(name)}"
    parent, _, last = name.rpartition(".")
    seen: list[tuple[str, str]] = []  # modules that exist and are of another slot, or of none
    for module in (name, parent):
        text = _text(module, where)
        if text is None:
            continue
        declared = spelling.slot(_declared(text))
        if declared == slot:
            return _listed(imported(module, last, where), last, where)
        seen.append((module, declared))
    if not seen:
        top = name.split(".")[0]
        raise ConfigError(
            f"{where}: there is no module {parent!r} here. Install the package of {top!r} into "
            "this environment (`pip install -e .` in its folder), or name the folder that holds "
            "it in PYTHONPATH."
        )
    module, other = next(((module, other) for module, other in seen if other), seen[0])
    if other:
        raise ConfigError(
            f"{where}: the module {module!r} is a plug-in of {other!r}, not of {slot!r}."
        )
    raise ConfigError(
        f"{where}: the module {module!r} is no plug-in. Write the line SLOT = {slot!r} into it, "
        "if it is meant to be one."
    )


def slot_of(name: str) -> str | None:
    """Return the slot that the module of such a name declares.

    None where there is no plug-in of this name.
    """
    modules = (name, name.rpartition(".")[0]) if is_outside(name) else ()
    texts = (_text(module, f"plug-in {quoted(name)}") for module in modules)
    found = (_declared(text) for text in texts if text is not None)
    return next((spelling.slot(slot) for slot in found if slot), None)


def entry_points(slot: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a slot by name."""
    groups = [f"sparring.{name}" for name in reversed(spelling.slots(slot))]
    return {
        point.name: point
        for group in groups
        for point in metadata.entry_points(group=group)
        if point.name.isidentifier() and point.pattern.match(point.value)
    }


def from_entry_point(point: metadata.EntryPoint, what: str) -> Found:
    """Return the function and the module of an entry point.

    ``module``, whose function has the entry point's name, or ``module:function``.

    Raises:
        ConfigError: it cannot be imported.
    """
    distribution = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return imported(
        point.module,
        point.attr or point.name,
        f"{what} {point.name!r}, an entry point{distribution}",
    )


def imported(module: str, function: str, where: str) -> Found:
    """Import a module and return its function.

    Raises:
        ConfigError: it raises as it is imported, or has no such function.
    """
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "importlib" not in frame.filename
        ]
        at = (
            f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}"
            if len(frames) > 1
            else ""
        )
        said = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"{where}: importing {module!r} failed{at}: {type(error).__name__}: {said}. {DEBUG}=1 "
            "shows the whole trace."
        ) from error
    entry = getattr(found, function, None)
    if not callable(entry):
        raise ConfigError(
            f"{where}: the module {module!r} has no function {function!r}; it is what the "
            "plug-in's name calls."
        )
    _loaded.setdefault(module, hashlib.sha256((_text(module, where) or "").encode()).hexdigest())
    return entry, found


def _listed(found: Found, function: str, where: str) -> Found:
    """Return a plug-in that was named with a dot, if its module offers it as one.

    Raises:
        ConfigError: it does not, or it is no function of this module.
    """
    entry, module = found
    allowed = {module.__name__.rpartition(".")[2], *getattr(module, "PLUGINS", ())}
    if (
        function not in allowed
        or not inspect.isfunction(entry)
        or entry.__module__ != module.__name__
    ):
        raise ConfigError(
            f"{where}: {function!r} is no plug-in of the module {module.__name__!r}, which "
            f"has {', '.join(map(repr, sorted(allowed)))}. A function of its own that is one is "
            f"listed there: PLUGINS = ({function!r},)."
        )
    return found


def _declared(text: str) -> str:
    """Return the slot that a module's text declares; empty where it declares none."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = _SLOT.search(text)
        return found[1] if found else ""
    for node in body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == "SLOT" for target in targets):
            value = getattr(node, "value", None)
            return (
                value.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str)
                else ""
            )
    return ""


def _text(module: str, where: str) -> str | None:
    """Return the text of a module, found without importing it or a package above it.

    None where there is none.

    Raises:
        ConfigError: its bytes are no text.
    """
    spec = _spec(module)
    loader: Any = getattr(spec, "loader", None)
    if spec is None or not hasattr(loader, "get_source"):
        return None
    try:
        text: str | None = loader.get_source(spec.name)
    except (UnicodeError, SyntaxError) as error:  # the text is decoded, not compiled
        raise ConfigError(
            f"{where}: the file of the module {module!r} is no UTF-8 text."
        ) from error
    except (ImportError, OSError):
        return None
    return text or ""


def _spec(module: str) -> ModuleSpec | None:
    """Return where a module is, or None."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    places = _places(spec)
    for number, part in enumerate(rest, 1):
        try:
            spec = importlib.machinery.PathFinder.find_spec(".".join([top, *rest[:number]]), places)
        except KeyError:  # a namespace in a package that is not imported: its folders are as good
            spec, places = (
                None,
                [str(Path(place) / part) for place in places if (Path(place) / part).is_dir()],
            )
        except (ImportError, ValueError):
            return None
        else:
            places = _places(spec)
    return spec


def _places(spec: ModuleSpec | None) -> list[str]:
    """Return the folders that a package's modules are in.

    Those of a namespace are found without importing what is above it.
    """
    found: Any = spec.submodule_search_locations if spec is not None else None
    return list(getattr(found, "_path", found) or ())


def loaded() -> dict[str, dict[str, str]]:
    """Return what this process has imported of plug-ins from outside.

    It maps a module to its package and version if installed, and the digest of its text.
    """
    packages = metadata.packages_distributions() if _loaded else {}
    found = {}
    for module, digest in sorted(_loaded.items()):
        own = dict.fromkeys(packages.get(module.split(".")[0], ()))
        found[module] = {
            "package": ", ".join(f"{package} {metadata.version(package)}" for package in own),
            "sha256": digest,
        }
    return found

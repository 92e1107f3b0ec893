"""Plug-ins of other packages: modules named with a dot, and entry points.

    rewards: [{name: my_package.short_replies}]

names the function short_replies, in the module my_package.short_replies or in my_package.

A module is a plug-in if it names its slot in a line `SLOT = "rewards"`. This line is read before
any import, so that a recipe from elsewhere can call only plug-ins. The plug-in is the function with
the module's name; a module with other plug-ins lists them: `PLUGINS = ("short_replies",
"long_replies")`. The command `sparring` does not search the current folder: install the package
(`pip install -e .`), or name its folder in PYTHONPATH.

An installed package may give a plug-in a short name, by an entry point of the group
`sparring.SLOT`:

    [project.entry-points."sparring.rewards"]
    short_replies = "my_package.short_replies"
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import re
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from sparring.config.plugins.plugin import declarations_of
from sparring.core.errors import DEBUG, ConfigError, quoted
from sparring.core.foreign_text import current_slot, slot_names

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_SLOT = re.compile(r"""^SLOT\s*(?::[^=\n]+)?=\s*["']([\w.]+)["']""", re.MULTILINE)

Entry = tuple[Callable[..., Any], ModuleType]
_loaded: dict[str, str] = {}  # module -> digest of its text as it was imported


def is_outside(name: str) -> bool:
    """Return whether a name has a dot, like a module of another package."""
    return _NAME.fullmatch(name) is not None and not name.startswith("sparring.")


def find(slot: str, name: str, noun: str) -> Entry:
    """Return (function, module) of a plug-in whose name has a dot.

    Args:
        slot: slot of the plug-in.
        name: ``package.module`` (the function has the module's name) or ``module.function``.
        noun: kind of plug-in, for errors.

    Raises:
        ConfigError: the module does not exist, is not a plug-in of this slot, or cannot be
            imported; the message says what to write.
    """
    label = f"{noun} {quoted(name)}"
    slot_by_module = _slots_of(name, label)
    module = next(
        (module for module, declared_slot in slot_by_module.items() if declared_slot == slot), None
    )
    if module is not None:
        return _check_listed(import_entry(module, name.rpartition(".")[2], label), name, label)
    if not slot_by_module:
        raise ConfigError(
            f"{label}: there is no module {name.rpartition('.')[0]!r} here. Install the package of "
            f"{name.split('.')[0]!r} into this environment (`pip install -e .` in its folder), or "
            "name the folder that holds it in PYTHONPATH."
        )
    for module, declared_slot in slot_by_module.items():
        if declared_slot:
            raise ConfigError(
                f"{label}: the module {module!r} is a plug-in of {declared_slot!r}, "
                f"not of {slot!r}."
            )
    raise ConfigError(
        f"{label}: the module {next(iter(slot_by_module))!r} is not a plug-in. Write the line "
        f"SLOT = {slot!r} into it to make it one."
    )


def slot_of(name: str) -> str | None:
    """Return the slot that the module of a name declares, or None."""
    slot_by_module = _slots_of(name, f"plug-in {quoted(name)}") if is_outside(name) else {}
    return next(filter(None, slot_by_module.values()), None)


def _slots_of(name: str, label: str) -> dict[str, str]:
    """Return {module: slot or ""} for the modules that a name may refer to."""
    slot_by_module = {}
    for module in (name, name.rpartition(".")[0]):
        text = _module_text(module, label)
        if text is not None:
            slot_by_module[module] = current_slot(_declared_slot(text))
    return slot_by_module


def _declared_slot(text: str) -> str:
    lines = {text.count("\n", 0, line.start()) + 1: line[1] for line in _SLOT.finditer(text)}
    try:
        statements = {statement.lineno for statement in ast.parse(text).body}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = set(lines)  # the import reports the error
    return next((slot for line, slot in lines.items() if line in statements), "")


def entry_points(slot: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a slot by name."""
    groups = [f"sparring.{name}" for name in reversed(slot_names(slot))]
    return {
        point.name: point
        for group in groups
        for point in metadata.entry_points(group=group)
        if point.name.isidentifier() and point.pattern.match(point.value)
    }


def from_entry_point(point: metadata.EntryPoint, noun: str) -> Entry:
    """Return (function, module) of an entry point.

    The entry point is ``module:function``, or ``module`` with a function of the entry point's name.

    Raises:
        ConfigError: the module cannot be imported.
    """
    package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    label = f"{noun} {point.name!r}, an entry point{package}"
    return import_entry(point.module, point.attr or point.name, label)


def import_entry(name: str, function: str, label: str) -> Entry:
    """Import a module and return (function, module).

    Raises:
        ConfigError: the import fails, or there is no such function.
    """
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        frames = [frame for frame in frames if "importlib" not in frame.filename]
        location = (
            f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
        )
        message = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"{label}: importing {name!r} failed{location}: {type(error).__name__}: {message}. "
            f"{DEBUG}=1 shows the traceback."
        ) from error
    entry = getattr(module, function, None)
    if not callable(entry):
        raise ConfigError(
            f"{label}: the module {name!r} has no function {function!r}; this is the "
            "function that the plug-in's name calls."
        )
    _loaded.setdefault(name, hashlib.sha256((_module_text(name, label) or "").encode()).hexdigest())
    return entry, module


def _check_listed(plugin: Entry, name: str, label: str) -> Entry:
    entry, module = plugin
    function = name.rpartition(".")[2]
    allowed = {module.__name__.rpartition(".")[2], *declarations_of(module).PLUGINS}
    is_plugin = inspect.isfunction(entry) or inspect.isclass(entry)
    if function not in allowed or not is_plugin or entry.__module__ != module.__name__:
        raise ConfigError(
            f"{label}: {function!r} is not a plug-in of the module {module.__name__!r}, which "
            f"has {', '.join(map(repr, sorted(allowed)))}. To make a function a plug-in, write "
            f"PLUGINS = ({function!r},) there."
        )
    return plugin


def _module_text(module: str, label: str) -> str | None:
    top_package, *submodules = module.split(".")
    try:
        spec = importlib.util.find_spec(top_package)  # imports nothing, as it has no parent package
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None
    stems = [Path(folder, *submodules) for folder in spec.submodule_search_locations or ()]
    if not stems and not submodules and (spec.origin or "").endswith(".py"):
        stems = [Path(spec.origin or "").with_suffix("")]
    try:
        texts = [text for text in map(read_module, stems) if text is not None]
    except (UnicodeError, SyntaxError) as error:  # the text is decoded, not compiled
        raise ConfigError(
            f"{label}: the file of the module {module!r} is not UTF-8 text."
        ) from error
    return texts[0] if texts else None if submodules else ""


def read_module(stem: Path) -> str | None:
    """Return the text of a module or package from its path without suffix; None: no file.

    Raises:
        UnicodeError, SyntaxError: the file does not fit the declared encoding.
    """
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if path.is_file():
            return importlib.util.decode_source(path.read_bytes())
    return None


def loaded_modules() -> dict[str, dict[str, str]]:
    """Return {module: package with version, and digest of its text} of outside plug-ins."""
    packages = metadata.packages_distributions() if _loaded else {}
    plugins = {}
    for module, digest in sorted(_loaded.items()):
        names = dict.fromkeys(packages.get(module.split(".")[0], ()))
        plugins[module] = {
            "package": ", ".join(f"{name} {metadata.version(name)}" for name in names),
            "sha256": digest,
        }
    return plugins

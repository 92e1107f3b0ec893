"""Checks text from outside: names for paths or metrics, old names, and text for a terminal.

A ``check_`` function returns the name, or raises ValueError with text for the caller's message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from sparring.core.errors import ConfigError

MAX_LENGTH = 100  # largest number of characters of a name
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=,+ -]*")


def check_file_name(name: object) -> str:
    """Return a name that is safe as a file name: letters, digits and ``. _ -``."""
    if not isinstance(name, str) or len(name) > MAX_LENGTH or not _FILE_NAME.fullmatch(name):
        text = repr(name)
        excerpt = text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."
        raise ValueError(
            f"{excerpt} is not a file name: write letters, digits and . _ -, at most {MAX_LENGTH}"
        )
    return name


def check_label(name: str) -> str:
    """Return a name for metrics and tables, such as ``hanabi_simple``, without ``/``."""
    if len(name) > MAX_LENGTH or not _LABEL.fullmatch(name):
        raise ValueError(
            "a name in metrics and tables: write letters, digits and . _ - + : =, at "
            f"most {MAX_LENGTH}"
        )
    return name


def check_path_name(name: str) -> str:
    """Return a name that becomes a path inside a folder, such as ``mars/kuhn-smol``."""
    if len(name) > MAX_LENGTH or not all(_FOLDER_NAME.fullmatch(part) for part in name.split("/")):
        raise ValueError(
            "the name becomes a folder below runs/: write letters, digits and . _ -, with / "
            f"between folders, none of which begins with a dot, at most {MAX_LENGTH} characters"
        )
    return name


SLOTS = {"games": "environments", "agents": "players"}  # old name of a slot -> current name
KEYS = {"games": "environments"}  # old configuration key -> current key


def current_slot(name: str) -> str:
    """Return the current name of a slot: ``games.solver`` becomes ``environments.solver``."""
    top, dot, rest = name.partition(".")
    return SLOTS.get(top, top) + dot + rest


def slot_names(name: str) -> tuple[str, ...]:
    """Return all names of a slot; the current name comes first."""
    return (name, *(old for old, new in SLOTS.items() if new == name))


def current_path(text: str) -> str:
    """Return an override's path with its current key: ``games.0`` becomes ``environments.0``."""
    top, dot, rest = text.partition(".")
    return KEYS.get(top, top) + dot + rest


def current_keys(data: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Return a configuration with the current names of its keys.

    Args:
        data: a recipe, or the configuration of a run.
        subject: name of the configuration, for the error.

    Raises:
        ConfigError: a key occurs with its old and its current name.
    """
    for old, new in KEYS.items():
        if old in data and new in data:
            raise ConfigError(
                f"{subject} has both {new!r} and {old!r}, its old name; write only {new!r}."
            )
    return {KEYS.get(key, key): value for key, value in data.items()}


LINE_LETTERS = "\n\t"
# Unicode categories: controls, formats such as direction marks, surrogates, separators
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # formats that some scripts and emoji need, and that are harmless


def escape_controls(text: object, *, lines: bool = True) -> str:
    r"""Return a text with every control character escaped, such as ``\x1b``.

    Args:
        text: any value; a value that is not a string is turned into one.
        lines: whether line ends and tabs stay unchanged.
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    allowed = JOINERS + (LINE_LETTERS if lines else "")
    return "".join(
        character
        if character in allowed or unicodedata.category(character) not in HIDDEN
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def in_words(minutes: float) -> str:
    """Return a duration in words.

    >>> in_words(0.2), in_words(1.6), in_words(200)
    ('12 seconds', '2 minutes', '3.3 hours')
    """
    if minutes < 1:
        return f"{max(minutes * 60, 1):.0f} seconds"
    if minutes < 120:
        return f"{minutes:.0f} minute{'s' if round(minutes) != 1 else ''}"
    return f"{minutes / 60:,.{0 if minutes > 600 else 1}f} hours"

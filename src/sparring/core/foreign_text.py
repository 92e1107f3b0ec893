"""Text from outside: names that become paths or metrics, old spellings, text for a terminal.

A ``check_`` of a name returns it, or raises ValueError with a clause; the caller says where.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from sparring.core.errors import ConfigError

LONGEST = 100
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=,+ -]*")  # of a path


def check_file_name(name: object) -> str:
    """Return the name of one file in a folder of ours.

    Letters, digits and ``. _ -``, nothing that leads elsewhere.
    """
    if not isinstance(name, str) or len(name) > LONGEST or not _FILE.fullmatch(name):
        text = repr(name)
        excerpt = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        raise ValueError(
            f"{excerpt} is no name of a file: letters, digits and . _ - make one, at most {LONGEST}"
        )
    return name


def check_label(name: str) -> str:
    """Return a name that stands in metrics and tables, such as ``hanabi_simple``.

    ``/`` would end it there.
    """
    if len(name) > LONGEST or not _LABEL.fullmatch(name):
        raise ValueError(
            "a name in metrics and tables: write letters, digits and . _ - + : =, at "
            f"most {LONGEST}"
        )
    return name


def check_path_name(name: str) -> str:
    """Return a name that becomes a path below a folder, such as ``mars/kuhn-smol``.

    It never leads out of it.
    """
    if len(name) > LONGEST or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise ValueError(
            "the name becomes a folder below runs/: write letters, digits and . _ -, with / "
            f"between folders, none of which begins with a dot, at most {LONGEST} characters"
        )
    return name


SLOTS = {"games": "environments", "agents": "players"}  # old name of a slot -> today's
KEYS = {"games": "environments"}  # old key of the configuration -> today's


def current_slot(name: str) -> str:
    """Return a slot as it is spelled today: ``games.solver`` is in ``environments``."""
    first, dot, rest = name.partition(".")
    return SLOTS.get(first, first) + dot + rest


def slot_spellings(name: str) -> tuple[str, ...]:
    """Return every spelling of a slot, today's first."""
    return (name, *(old for old, new in SLOTS.items() if new == name))


def current_path(text: str) -> str:
    """Return the path of an override as it is spelled today: ``games.0.name`` and its like."""
    first, dot, rest = text.partition(".")
    return KEYS.get(first, first) + dot + rest


def current_keys(data: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a configuration with its keys as they are spelled today.

    Args:
        data: a recipe, or the configuration of a run.
        what: it in words, for the error.

    Raises:
        ConfigError: it holds a key in both spellings.
    """
    for old, new in KEYS.items():
        if old in data and new in data:
            raise ConfigError(
                f"{what} has both {new!r} and {old!r}, its old spelling; write {new!r} alone."
            )
    return {KEYS.get(key, key): value for key, value in data.items()}


LINE_LETTERS = "\n\t"
# controls, formats such as turned writing, halves of pairs, separators
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # formats that scripts and emoji need; they only join their neighbours


def escape_controls(text: object, *, lines: bool = True) -> str:
    r"""Return a text with every character that commands a terminal escaped.

    It is written as its escape, such as ``\x1b``.

    Args:
        text: anything; what is no string is turned into one first.
        lines: whether line ends and tabs stay; otherwise they are escaped as well.
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    plain = JOINERS + (LINE_LETTERS if lines else "")
    return "".join(
        letter
        if letter in plain or unicodedata.category(letter) not in HIDDEN
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in text
    )


def in_words(minutes: float) -> str:
    """Return a duration as a person would say it.

    >>> in_words(0.2), in_words(1.6), in_words(200)
    ('12 seconds', '2 minutes', '3.3 hours')
    """
    if minutes < 1:
        return f"{max(minutes * 60, 1):.0f} seconds"
    if minutes < 120:
        return f"{minutes:.0f} minute{'s' if round(minutes) != 1 else ''}"
    return f"{minutes / 60:,.{0 if minutes > 600 else 1}f} hours"

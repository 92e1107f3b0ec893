"""Calls of tools in replies: how they are written, read and answered.

In brief style a reply is a call and nothing else, of words: ``search ada box``, ``add 3 4``. In
full style a call stands between tags: ``<search>words</search>``, ``<calculate>3+4</calculate>``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparring.environments.toolbox import ToolError, calculate, search

SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
NONE = "none"  # a brief answer that holds nothing
_TAGS = re.compile(r"<(search|calculate)>(.*?)(</\1>|(?=<(?:search|calculate)>)|\Z)", re.DOTALL)


def called(reply: str, *, brief: bool) -> tuple[str, str] | None:
    """Return the tool that a reply calls and what it is given, or None.

    The first call in a reply counts; one that is not closed is given nothing.
    """
    if not brief:
        match = _TAGS.search(reply)
        return None if match is None else (match[1], match[2].strip() if match[3] else "")
    tool, given = [*reply.split(None, 1), "", ""][:2]
    return (tool, given.strip()) if tool == "search" or tool in SIGNS else None


def written(tool: str, given: str, *, brief: bool) -> str:
    """Return a call as it is recorded, and read back the same."""
    return f"{tool} {given}".strip() if brief else f"<{tool}>{given}</{tool}>"


def found(library: Sequence[str], given: str, *, limit: int, brief: bool) -> str:
    """Return what a search finds, in words."""
    if brief:
        return " ; ".join(search(library, given, limit=limit)) or NONE
    if not library:
        return "There is no library here."
    if not given:
        return "The search has no words; write <search>words</search>."
    notes = search(library, given, limit=limit)
    return "Found: " + " ".join(notes) if notes else "Nothing was found."


def result(tool: str, given: str, *, most: int | None) -> str:
    """Return what the calculator says, in words.

    Args:
        tool: "calculate", or a word for a sign in brief style.
        given: an expression, or two numbers in brief style.
        most: the largest number that the brief calculator says; None: full style.
    """
    try:
        value = calculate(given if most is None else _expression(tool, given))
    except ToolError as error:
        return str(error) if most is None else NONE
    if most is None:
        return f"The result is {value}."
    return value if value.isdecimal() and int(value) <= most else NONE


def _expression(tool: str, given: str) -> str:
    """Return the expression of two brief numbers; "" where there are no such two."""
    words = given.split()
    plain = len(words) == 2 and all(word.isdecimal() for word in words)
    return f"{words[0]} {SIGNS[tool]} {words[1]}" if plain else ""

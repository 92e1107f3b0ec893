"""Calls of tools as text: what a text calls, with which parameters, and how alike two calls are."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparring.core.records import FloatArray

LONGEST = 10_000  # characters of code; its parser takes long over more, and none is a move
_PARTED = re.compile(r"[\s=:,]+")
_UNREADABLE = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


class Call(NamedTuple):
    """A name and its parameters; those without a name are called "1", "2", .. in their order."""

    name: str
    parameters: Mapping[str, str]  # name -> value, as JSON


@lru_cache(maxsize=65_536)
def calls_of(text: str) -> tuple[Call, ...]:
    """Return the calls that a text makes, mostly one.

    JSON is read as a call, or a list of calls: {"name": "move", "arguments": {"x": 1}};
    "parameters" says the same as "arguments". move(x=1, y=2) is a call as in code. Of any other
    text the words between spaces, "=", ":" and "," count: the first is the name, the others are
    parameters without a name, so that "r1c2=3" calls r1c2 with 3. A text without any word makes no
    call. A text of more than 10,000 characters is not read as code.
    """
    return _from_json(text) or _from_code(text) or _from_words(text)


def likeness(call: Call, reference: Call) -> float:
    """Return how alike two calls are, from 0 up to 1.

    It is 0 if their names differ, whatever the case of letters.

    (1 + |P & Q| / |P | Q| + number of equal values) / (2 + |Q|), P the names of the parameters and
    Q those of the reference; the quotient is 1 where both have none.
    """
    if call.name.casefold() != reference.name.casefold():
        return 0.0
    own, wanted = call.parameters, reference.parameters
    shared, every = len(own.keys() & wanted.keys()), len(own.keys() | wanted.keys())
    equal = sum(own.get(name) == value for name, value in wanted.items())
    return (1.0 + (shared / every if every else 1.0) + equal) / (2.0 + len(wanted))


def likenesses(calls: Sequence[Call], references: Sequence[Call]) -> FloatArray:
    """Return how alike each call and each reference are, float64 [calls, references]."""
    rows = [[likeness(call, reference) for reference in references] for call in calls]
    return np.array(rows, dtype=np.float64).reshape(len(calls), len(references))


def _from_json(text: str) -> tuple[Call, ...]:
    """Return the calls of a JSON text; none if it is something else."""
    try:
        found = json.loads(text)
    except _UNREADABLE:
        return ()
    items = found if isinstance(found, list) else [found]
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return ()
    return tuple(
        Call(item["name"], _arguments(item.get("arguments", item.get("parameters"))))
        for item in items
    )


def _arguments(given: Any) -> Mapping[str, str]:
    """Return the parameters of a call in JSON, also if they are JSON in a string."""
    if isinstance(given, str):
        given = _read(given, json.loads, given)
    if isinstance(given, dict):
        return {name: _plain(value) for name, value in given.items()}
    listed = given if isinstance(given, list) else [] if given is None else [given]
    return {str(place): _plain(value) for place, value in enumerate(listed, 1)}


def _from_code(text: str) -> tuple[Call, ...]:
    """Return the call of a text such as move(x=1, y=2); none if it is something else."""
    if len(text) > LONGEST:
        return ()
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return ()
        given = {str(place): _value(ast.unparse(value)) for place, value in enumerate(node.args, 1)}
        given |= {
            keyword.arg or "**": _value(ast.unparse(keyword.value)) for keyword in node.keywords
        }
        return (Call(ast.unparse(node.func), given),)
    except _UNREADABLE:
        return ()


def _from_words(text: str) -> tuple[Call, ...]:
    """Return the call of any other text; none if it has no word."""
    words = [word for word in _PARTED.split(text) if word]
    return (
        (Call(words[0], {str(place): _value(word) for place, word in enumerate(words[1:], 1)}),)
        if words
        else ()
    )


def _value(text: str) -> str:
    """Return a written value as JSON.

    A number, a string with or without quotation marks, a list.
    """
    return _plain(_read(text, json.loads, _read(text, ast.literal_eval, text)))


def _read(text: str, reader: Callable[[str], Any], otherwise: Any) -> Any:
    """Return what a reader makes of a text, else something else."""
    try:
        return reader(text)
    except _UNREADABLE:
        return otherwise


def _plain(value: Any) -> str:
    """Return a value as JSON; as Python writes it if JSON has no such value."""
    try:
        return json.dumps(value, sort_keys=True)
    except _UNREADABLE:
        return repr(value)

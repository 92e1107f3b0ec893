"""Calls of tools as text, how alike two calls are, and rows matched with columns by likeness.

Matching is greedy, exact, or spread by entropic optimal transport.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sparring.core.records import FloatArray, IntArray

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
    return _plain(_read(text, json.loads, _read(text, ast.literal_eval, text)))


def _read(text: str, reader: Callable[[str], Any], otherwise: Any) -> Any:
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


# how much more a match of the first row counts than one of the last: of equal sums the one that
# pays earlier rows wins
TIE = 1e-9
ROUNDS = 1000  # most rounds of Sinkhorn's iteration
CLOSE = 1e-9  # how far the sums of a plan may be off when it ends


def greedy_matching(similarity: FloatArray) -> IntArray:
    """Return the column of each row, -1 for none.

    The most alike pair first, then the most alike of what is left; int64 [rows].

    Args:
        similarity: float64 [rows, columns]; only positive ones are matched. Of equal ones the first
            row goes first, then column.
    """
    rows, columns = similarity.shape
    found, taken = np.full(rows, -1, dtype=np.int64), np.zeros(columns, dtype=bool)
    for place in np.argsort(-similarity, axis=None, kind="stable"):
        row, column = divmod(int(place), columns)
        if found[row] < 0 and not taken[column] and similarity[row, column] > 0.0:
            found[row], taken[column] = column, True
    return found


def exact_matching(similarity: FloatArray) -> IntArray:
    """Return the column of each row, -1 for none; int64 [rows].

    The sum over all matches is the largest.

    Args:
        similarity: float64 [rows, columns], none negative; only positive ones are matched.
    """
    rows = len(similarity)
    lean = 1.0 + TIE * np.arange(rows, 0, -1) / max(rows, 1)
    row, column = linear_sum_assignment(similarity * lean[:, None], maximize=True)
    found = np.full(rows, -1, dtype=np.int64)
    found[row] = np.where(similarity[row, column] > 0.0, column, -1)
    return found


def transport_plan(similarity: FloatArray, regularisation: float) -> FloatArray:
    """Return the plan T of a matching by Sinkhorn; float64 [rows, columns].

    It maximises sum T * similarity + regularisation * entropy(T).

    Every row sums to 1 / rows; every column to 1 / columns, up to ``CLOSE`` where ``ROUNDS`` rounds
    are enough, as they mostly are; else up to 0.001 with regularisation 0.1.

    Args:
        similarity: float64 [rows, columns], at least one of each.
        regularisation: at least 0.01 for similarities in [0, 1].
    """
    rows, columns = similarity.shape
    kernel = np.exp((similarity - similarity.max()) / regularisation)
    left = np.ones(rows)
    for _ in range(ROUNDS):
        right = 1.0 / (columns * (left @ kernel))
        sums = left * (kernel @ right)
        left = left / (rows * sums)
        if np.abs(sums - 1.0 / rows).max() < CLOSE:
            break
    plan: FloatArray = left[:, None] * kernel * right
    return plan

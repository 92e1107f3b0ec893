"""Reads tool calls from text, compares calls, and matches rows of a matrix with its columns."""

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

MAX_CODE_CHARS = 10_000  # longer texts are not read as code, as the parser would be slow
_SEPARATORS = re.compile(r"[\s=:,]+")
_PARSE_ERRORS = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


class ToolCall(NamedTuple):
    """A name and parameters; parameters without a name are called "1", "2", ... in their order."""

    name: str
    parameters: Mapping[str, str]  # name -> value, as JSON


@lru_cache(maxsize=65_536)
def calls_of(text: str) -> tuple[ToolCall, ...]:
    """Return the calls in a text, usually one.

    JSON is read as a call or a list of calls: {"name": "move", "arguments": {"x": 1}}; the key may
    also be "parameters". A text such as move(x=1, y=2) is read as code, up to 10,000 characters.
    Any other text is split at spaces, "=", ":" and ",": the first word is the name, and the others
    are parameters without a name, so that "r1c2=3" calls r1c2 with 3. A text without words makes no
    call.
    """
    return _from_json(text) or _from_code(text) or _from_words(text)


def similarity_of(call: ToolCall, reference: ToolCall) -> float:
    """Return the similarity of two calls, in [0, 1]; 0 if their names differ beyond letter case.

    Equation:
        (1 + |P & Q| / |P | Q| + number of equal values) / (2 + |Q|)

    P are the names of the call's parameters, and Q those of the reference; the quotient is 1 if
    both are empty.
    """
    if call.name.casefold() != reference.name.casefold():
        return 0.0
    parameters, reference_values = call.parameters, reference.parameters
    num_shared = len(parameters.keys() & reference_values.keys())
    num_names = len(parameters.keys() | reference_values.keys())
    num_equal = sum(parameters.get(name) == value for name, value in reference_values.items())
    return (1.0 + (num_shared / num_names if num_names else 1.0) + num_equal) / (
        2.0 + len(reference_values)
    )


def similarities(calls: Sequence[ToolCall], references: Sequence[ToolCall]) -> FloatArray:
    """Return the similarity of each call and each reference, float64 [calls, references]."""
    rows = [[similarity_of(call, reference) for reference in references] for call in calls]
    return np.array(rows, dtype=np.float64).reshape(len(calls), len(references))


def _from_json(text: str) -> tuple[ToolCall, ...]:
    try:
        data = json.loads(text)
    except _PARSE_ERRORS:
        return ()
    items = data if isinstance(data, list) else [data]
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return ()
    return tuple(
        ToolCall(item["name"], _read_arguments(item.get("arguments", item.get("parameters"))))
        for item in items
    )


def _read_arguments(arguments: Any) -> Mapping[str, str]:
    """Return the parameters of a call in JSON; they may also be JSON in a string."""
    if isinstance(arguments, str):
        arguments = _try_read(arguments, json.loads, arguments)
    if isinstance(arguments, dict):
        return {name: _to_json(value) for name, value in arguments.items()}
    values = arguments if isinstance(arguments, list) else [] if arguments is None else [arguments]
    return {str(index): _to_json(value) for index, value in enumerate(values, 1)}


def _from_code(text: str) -> tuple[ToolCall, ...]:
    if len(text) > MAX_CODE_CHARS:
        return ()
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return ()
        parameters = {
            str(index): _as_json(ast.unparse(value)) for index, value in enumerate(node.args, 1)
        }
        parameters |= {
            keyword.arg or "**": _as_json(ast.unparse(keyword.value)) for keyword in node.keywords
        }
        return (ToolCall(ast.unparse(node.func), parameters),)
    except _PARSE_ERRORS:
        return ()


def _from_words(text: str) -> tuple[ToolCall, ...]:
    words = [word for word in _SEPARATORS.split(text) if word]
    parameters = {str(index): _as_json(word) for index, word in enumerate(words[1:], 1)}
    return (ToolCall(words[0], parameters),) if words else ()


def _as_json(text: str) -> str:
    return _to_json(_try_read(text, json.loads, _try_read(text, ast.literal_eval, text)))


def _try_read(text: str, reader: Callable[[str], Any], default: Any) -> Any:
    try:
        return reader(text)
    except _PARSE_ERRORS:
        return default


def _to_json(value: Any) -> str:
    """Return a value as JSON, or as Python code if JSON has no such value."""
    try:
        return json.dumps(value, sort_keys=True)
    except _PARSE_ERRORS:
        return repr(value)


# additional weight of the first row in comparison with the last; it decides between equal sums
MAX_TIE = 1e-9
MAX_ROUNDS = 1000  # largest number of rounds of Sinkhorn's iteration
MAX_SUM_ERROR = 1e-9  # largest error of a plan's sums at the end of the iteration


def greedy_matching(similarity: FloatArray) -> IntArray:
    """Return the column of each row, -1 without a match, int64 [rows]; most similar pairs first.

    Args:
        similarity: float64 [rows, columns]; only positive entries are matched. Of equal entries
            the first row goes first, then the first column.
    """
    rows, columns = similarity.shape
    columns_of_rows, is_matched = np.full(rows, -1, dtype=np.int64), np.zeros(columns, dtype=bool)
    for flat_index in np.argsort(-similarity, axis=None, kind="stable"):
        row, column = divmod(int(flat_index), columns)
        if columns_of_rows[row] < 0 and not is_matched[column] and similarity[row, column] > 0.0:
            columns_of_rows[row], is_matched[column] = column, True
    return columns_of_rows


def exact_matching(similarity: FloatArray) -> IntArray:
    """Return the matching with the largest sum: the column of each row, -1 without one, [rows].

    Args:
        similarity: float64 [rows, columns], at least 0; only positive entries are matched.
    """
    rows = len(similarity)
    row_weights = 1.0 + MAX_TIE * np.arange(rows, 0, -1) / max(rows, 1)
    row, column = linear_sum_assignment(similarity * row_weights[:, None], maximize=True)
    columns_of_rows = np.full(rows, -1, dtype=np.int64)
    columns_of_rows[row] = np.where(similarity[row, column] > 0.0, column, -1)
    return columns_of_rows


def transport_plan(similarity: FloatArray, regularisation: float) -> FloatArray:
    """Return the entropic transport plan T of a matching by Sinkhorn, float64 [rows, columns].

    Equation:
        T maximises sum T * similarity + regularisation * entropy(T)

    Every row sums to 1 / rows and every column to 1 / columns, up to ``MAX_SUM_ERROR`` if
    ``MAX_ROUNDS`` rounds are enough, which is usual; else up to 0.001 with regularisation 0.1.

    Args:
        similarity: float64 [rows, columns], with at least one row and one column.
        regularisation: at least 0.01 for similarities in [0, 1].
    """
    rows, columns = similarity.shape
    kernel = np.exp((similarity - similarity.max()) / regularisation)
    row_scale = np.ones(rows)
    for _ in range(MAX_ROUNDS):
        column_scale = 1.0 / (columns * (row_scale @ kernel))
        sums = row_scale * (kernel @ column_scale)
        row_scale = row_scale / (rows * sums)
        if np.abs(sums - 1.0 / rows).max() < MAX_SUM_ERROR:
            break
    plan: FloatArray = row_scale[:, None] * kernel * column_scale
    return plan

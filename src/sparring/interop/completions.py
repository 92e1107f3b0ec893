"""TRL's completions as rows of turns, one process's share at a time.

Legend: as in ``rows.py``; F reward functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparring.errors import CreditError
from sparring.interop.rows import PREFIX, Rows
from sparring.interop.spans import Spans
from sparring.types import FloatArray, IntArray

TURN_REWARD = "turn_reward"
Record = Mapping[str, Any]
"""A completion as plain lists, so that processes can exchange it."""


def records(
    place: Spans, numbers: Mapping[str, FloatArray], inputs: Sequence[Mapping[str, Any]]
) -> list[Record]:
    """Return this process's completions.

    Args:
        place: where the turns are.
        numbers: columns of the turn table [N] each.
        inputs: rows of the data set, with what a rollout function added.
    """
    ends, n_tokens = np.cumsum(place.num_turns), place.n_tokens
    return [
        {
            "n_tokens": n_tokens[end - size : end].tolist(),
            "numbers": {
                name: values[end - size : end].tolist() for name, values in numbers.items()
            },
            "columns": {
                key.removeprefix(PREFIX): value
                for key, value in row.items()
                if key.startswith(PREFIX)
            },
        }
        for row, size, end in zip(inputs, place.num_turns.tolist(), ends.tolist(), strict=True)
    ]


def as_rows(
    found: Sequence[Record], weighted: FloatArray, group: Sequence[int], functions: Sequence[str]
) -> Rows:
    """Return completions as rows of turns.

    Args:
        found: the completions of all processes.
        weighted: [B, F] weighted rewards by function: the reward of the last turn.
        group: [B] number of the prompt.
        functions: names of the reward functions.

    Raises:
        CreditError: rewards per turn are not one per turn.
    """
    num_turns = np.array([len(record["n_tokens"]) for record in found], dtype=np.int64)
    parts: dict[str, FloatArray] = {name: np.zeros(int(num_turns.sum())) for name in functions}
    for number, name in enumerate(functions):
        parts[name][np.cumsum(num_turns) - 1] += weighted[:, number]
    columns = {
        name: [record["columns"].get(name) for record in found] for name in found[0]["columns"]
    }
    reward: FloatArray = np.sum(list(parts.values()), axis=0)
    if TURN_REWARD in columns:
        reward = reward + _by_turn(columns.pop(TURN_REWARD), num_turns)
    return Rows(
        num_turns=num_turns,
        n_tokens=np.array([n for record in found for n in record["n_tokens"]], dtype=np.int64),
        reward=reward,
        group=group,
        columns=columns,
        components=parts,
        numbers={
            name: np.array([v for record in found for v in record["numbers"][name]])
            for name in found[0]["numbers"]
        },
    )


def outcomes(rows: Rows) -> tuple[list[tuple[Any, Any]], FloatArray]:
    """Return what each row may be compared with, its prompt and role, and its return [B]."""
    roles = rows.columns.get("role", [None] * len(rows.num_turns))
    starts = np.cumsum(rows.num_turns) - rows.num_turns
    return list(zip(rows.group, roles, strict=True)), np.add.reduceat(rows.reward, starts)


def _by_turn(listed: Sequence[Any], num_turns: IntArray) -> FloatArray:
    """Return a list per row as one number per turn, [N]."""
    for row, (values, count) in enumerate(zip(listed, num_turns.tolist(), strict=True)):
        if values is None or len(values) != count:
            raise CreditError(
                f"column {PREFIX + TURN_REWARD!r}, row {row}: {values!r} for {count} turns; give "
                f"a list of {count}."
            )
    return np.concatenate([np.asarray(values, dtype=np.float64) for values in listed])

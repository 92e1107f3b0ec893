"""What the learn phase found.

A second table of Parquet parts, one row per turn, keyed like the episodes.

SELECT role, avg(advantage) FROM 'runs/demo/credit/*.parquet' JOIN 'runs/demo/episodes/*.parquet'
USING (step, episode_id, seat, turn_index, candidate) GROUP BY role
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparring.core.records import Credit, Episode, FloatArray, Turn, TurnTable
from sparring.play.parquet_parts import Columns, Parts
from sparring.play.turn_table import ordered_turns

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("episode_id", pa.int64()),
        ("seat", pa.int16()),
        ("turn_index", pa.int32()),
        ("candidate", pa.int16()),
        ("selected", pa.bool_()),
        ("replayed", pa.bool_()),
        ("reward", pa.float64()),
        ("advantage", pa.float64()),
        ("token_advantages", pa.list_(pa.float64())),
        ("baseline", pa.float64()),
        ("value", pa.float64()),
        ("value_target", pa.float64()),
        ("entropies", pa.list_(pa.float64())),
    ]
)
# (seat, turn index, candidate) -> its row
Credits = Mapping[tuple[int, int, int], Mapping[str, Any]]
KEYS = ("episode_id", "seat", "turn_index", "candidate")
COLUMNS = Columns(kind="credit", version=2, schema=SCHEMA, added={"candidate": 0})


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What a step learned from: its batch, the turn table of it, and what credit and model said.

    Legend: N turns, M sampled tokens, in the order of the turn table.
    """

    batch: Sequence[Episode]  # trained on, replayed plays included
    turns: TurnTable  # of the batch
    credit: Credit
    entropies: FloatArray  # [M] of each sampled token's distribution, nats


class CreditStore(Parts):
    """A folder of parts, one per stored step."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, COLUMNS)

    def append(self, step: int, episodes: Sequence[Episode], learned: Sequence[Learned]) -> Path:
        """Write what a step found as one part.

        Args:
            step: steps done.
            episodes: every play of the step; turns that are not in the batch have ``selected``
                false.
            learned: what each policy learned from in the step.

        Raises:
            RunError: the disk is full or not writable.
        """
        return self.put(step, COLUMNS.written(credit_rows(step, episodes, learned)))


def credits_of(table: pa.Table, number: int) -> Credits:
    """Return what was learned of the replies of an episode.

    Args:
        table: rows of the episode's step, with all columns.
        number: of the episode.
    """
    rows = table.filter(pc.equal(table["episode_id"], number)).to_pylist()
    return {(row["seat"], row["turn_index"], row["candidate"]): row for row in rows}


def credit_rows(step: int, episodes: Sequence[Episode], learned: Sequence[Learned]) -> pa.Table:
    """Return the rows of a step.

    The batch of each policy in the order of its turn table, then what was not trained on: turns
    that selection dropped, and replies that were not played where the estimator follows what was.
    """
    played = {episode.episode_id for episode in episodes}
    found: dict[str, list[Any]] = {field.name: [] for field in SCHEMA}
    for own in learned:
        for name, column in _columns(own, played).items():
            found[name].extend(column)
    known = set(zip(*(found[name] for name in KEYS), strict=True))
    left = [
        (*_key(episode, turn), sum(turn.rewards.values()))
        for episode, turn in ordered_turns(episodes, candidates=True)
        if _key(episode, turn) not in known
    ]
    dropped: dict[str, list[Any]] = {
        "selected": [False] * len(left),
        "replayed": [False] * len(left),
        "reward": [row[-1] for row in left],
        **{name: [row[place] for row in left] for place, name in enumerate(KEYS)},
    }
    for name, rows in found.items():
        rows.extend(dropped.get(name, [None] * len(left)))
    found["step"] = [step] * len(found["step"])
    arrays = [pa.array(found[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _columns(learned: Learned, played: Collection[int]) -> dict[str, Iterable[Any]]:
    """Return the columns of what a policy learned from.

    Args:
        learned: its batch, and what was found of it.
        played: numbers of the plays of the step; others are replayed.
    """
    turns, credit = learned.turns, learned.credit
    every = turns.state_group is not None
    keys = [_key(*row) for row in ordered_turns(learned.batch, candidates=every)]
    by_token = _by_turn(credit.advantages, turns) if credit.level == "token" else None
    nothing = [None] * len(keys)
    return {
        **{name: [row[place] for row in keys] for place, name in enumerate(KEYS)},
        "step": nothing,
        "selected": [True] * len(keys) if credit.trained is None else credit.trained,
        "replayed": [number not in played for number, *_ in keys],
        "reward": turns.reward,
        "advantage": credit.advantages
        if by_token is None
        else [own.mean() if len(own) else 0.0 for own in by_token],
        "token_advantages": nothing if by_token is None else by_token,
        "baseline": _or_null(credit.baselines, len(keys)),
        "value": _or_null(turns.value, len(keys)),
        "value_target": _or_null(credit.value_targets, len(keys)),
        "entropies": _by_turn(learned.entropies, turns),
    }


def _key(episode: Episode, turn: Turn) -> tuple[int, ...]:
    """Return what a reply is found by among those of a step."""
    return episode.episode_id, turn.seat, turn.turn_index, turn.candidate


def _by_turn(values: FloatArray, turns: TurnTable) -> list[FloatArray]:
    """Return a column over tokens, cut into the turns that they belong to."""
    return np.split(values, np.cumsum(turns.n_tokens)[:-1]) if len(turns.n_tokens) else []


def _or_null(column: FloatArray | None, rows: int) -> Iterable[Any]:
    """Return a column, or nulls where there is none of a number per turn."""
    return [None] * rows if column is None or len(column) != rows else column

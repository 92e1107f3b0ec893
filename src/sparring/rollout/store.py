"""The episode store: Parquet parts, one row per turn, whole or absent, queryable with DuckDB.

SELECT role, avg(seat_return) FROM 'runs/demo/episodes/*.parquet' WHERE turn_index = 0 GROUP BY role
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparring.ops.files import TEMPORARY, disk_errors, machine_bytes, write_bytes_atomic
from sparring.types import Episode, Segment, Turn, Verdict

log = logging.getLogger(__name__)
BYTES = 8  # that a value takes in memory, strings apart
_NAME = re.compile(r"part-([0-9]{6,})\.parquet")

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("episode_id", pa.int64()),
        ("group_id", pa.int64()),
        ("game", pa.string()),
        ("seed", pa.uint64()),
        ("seat", pa.int16()),
        ("role", pa.string()),
        ("agent", pa.string()),
        ("trained", pa.bool_()),
        ("turn_index", pa.int32()),
        ("state_key", pa.string()),
        ("view", pa.string()),
        ("legal_actions", pa.list_(pa.string())),
        ("reply", pa.string()),
        ("action", pa.string()),
        ("event", pa.string()),
        ("reward_names", pa.list_(pa.string())),
        ("reward_values", pa.list_(pa.float64())),
        ("seat_return", pa.float64()),
        ("segment_kinds", pa.list_(pa.string())),
        ("segment_lengths", pa.list_(pa.int32())),
        ("ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float64())),
        ("kept", pa.list_(pa.list_(pa.int32()))),
        ("truncated", pa.bool_()),
        ("weights_version", pa.int64()),
        ("conversation", pa.int32()),
        ("oracle_values", pa.list_(pa.float64())),
        ("oracle_best", pa.list_(pa.bool_())),
        ("oracle_certainty", pa.float64()),
        ("oracle_bound", pa.float64()),
        ("oracle_entropy", pa.float64()),
        ("playout", pa.float64()),
        ("forfeited_by", pa.int16()),
        ("returns", pa.list_(pa.float64())),
        ("roles", pa.list_(pa.string())),
        ("agents", pa.list_(pa.string())),
        ("trained_seats", pa.list_(pa.bool_())),
        ("cut", pa.bool_()),
    ]
)
ADDED = {"cut": False}  # columns that files of before lack, with what they would have held


class EpisodeStore:
    """A folder of Parquet parts, one per stored step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, step: int, episodes: Sequence[Episode]) -> Path:
        """Write the episodes of a step as one part; a part of the same step is replaced.

        Raises:
            RunError: the disk is full or not writable.
        """
        with disk_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
        path = self.folder / f"part-{step:06d}.parquet"
        write_bytes_atomic(path, to_bytes([(step, episode) for episode in episodes]))
        return path

    def truncate_after(self, step: int) -> None:
        """Remove the parts of later steps, and what a kill left of unfinished ones."""
        for number, path in self._parts():
            if number > step and path.is_file():
                path.unlink()
        for path in self.folder.glob(f"{TEMPORARY}*"):
            path.unlink()

    def read(self) -> pa.Table:
        """Return all rows in order of steps; what is torn or no part of ours is left out, with a warning that counts it."""
        tables = []
        bad = sorted({path.name for path in self.folder.glob("[!.]*")} - {path.name for _, path in self._parts()})
        for _, path in self._parts():
            try:
                tables.append(_read(path))
            except (pa.ArrowException, OSError, ValueError):
                bad.append(path.name)
        if bad:
            log.warning("%d of %d parts in %s cannot be read and are left out: %s", len(bad), len(bad) + len(tables), self.folder, bad)
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def episodes(self) -> Iterator[tuple[int, Episode]]:
        """Yield (step, episode) of everything that can be read, as it was written."""
        yield from _episodes(self.read())

    def _parts(self) -> list[tuple[int, Path]]:
        """Return (step, path) of everything that is named like a part, oldest first."""
        return sorted((int(match[1]), path) for path in self.folder.glob("part-*") if (match := _NAME.fullmatch(path.name)))


def to_bytes(episodes: Sequence[tuple[int, Episode]]) -> bytes:
    """Return (step, episode) pairs as a Parquet file, one row per turn."""
    rows = [_row(step, episode, turn) for step, episode in episodes for turn in episode.turns]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), sink, compression="zstd", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: bytes, *, rows: int | None = None) -> list[tuple[int, Episode]]:
    """Return the (step, episode) pairs that ``to_bytes`` was given, or those of the first ``rows`` turns; the last may be cut.

    Raises:
        ValueError, pa.ArrowException: this is no such file, or it is damaged, or too large to be read.
    """
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return list(_episodes(_completed(_read_fitting(file).slice(0, rows))))


def _episodes(table: pa.Table) -> Iterator[tuple[int, Episode]]:
    """Yield (step, episode) of the rows of a table, which are in order."""
    rows: list[dict[str, Any]] = []
    for row in table.to_pylist():
        if rows and (row["step"], row["episode_id"]) != (rows[0]["step"], rows[0]["episode_id"]):
            yield rows[0]["step"], _episode(rows)
            rows = []
        rows.append(row)
    if rows:
        yield rows[0]["step"], _episode(rows)


def _read(path: Path) -> pa.Table:
    """Return the rows of one part.

    Raises:
        ValueError: it is no part of ours.
        pa.ArrowException, OSError: it is torn or damaged.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = _completed(_read_fitting(file))
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path} has other columns than an episode store")
    return table


def _read_fitting(file: pq.ParquetFile) -> pa.Table:
    """Return the rows of a file whose values fit into memory once they are unpacked; it may be small and hold very many.

    Raises:
        ValueError: they do not fit.
    """
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    values = sum(group.column(number).num_values for group in groups for number in range(group.num_columns))
    if values * BYTES > machine_bytes():
        raise ValueError(f"{values} values are more than this machine's memory holds")
    return file.read()


def _completed(table: pa.Table) -> pa.Table:
    """Return the table with the columns that files of before lack."""
    for name, value in ADDED.items():
        if name not in table.column_names:
            table = table.append_column(SCHEMA.field(name), pa.array([value] * len(table), SCHEMA.field(name).type))
    return table


def _row(step: int, episode: Episode, turn: Turn) -> tuple[Any, ...]:
    """Return a turn as the values of a row, in the schema's order."""
    seat, segments = turn.seat, turn.segments
    return (
        step,
        episode.episode_id,
        episode.group_id,
        episode.game,
        episode.seed,
        seat,
        episode.roles[seat],
        turn.agent,
        episode.trained[seat],
        turn.turn_index,
        turn.state_key,
        turn.view,
        turn.legal_actions,
        turn.reply,
        turn.action,
        turn.event,
        list(turn.rewards),
        list(turn.rewards.values()),
        episode.returns[seat],
        [segment.kind for segment in segments],
        [len(segment.ids) for segment in segments],
        [index for segment in segments for index in segment.ids],
        [value for segment in segments for value in segment.logprobs],
        [ids for segment in segments for ids in segment.kept],
        turn.truncated,
        turn.weights_version,
        turn.conversation,
        *_verdict_columns(turn),
        turn.playout,
        episode.forfeited_by,
        episode.returns,
        episode.roles,
        episode.agents,
        episode.trained,
        episode.cut,
    )


def _episode(rows: Sequence[dict[str, Any]]) -> Episode:
    """Return the episode whose turns these rows are."""
    first = rows[0]
    return Episode(
        episode_id=first["episode_id"],
        group_id=first["group_id"],
        game=first["game"],
        seed=first["seed"],
        roles=tuple(first["roles"]),
        agents=tuple(first["agents"]),
        trained=tuple(first["trained_seats"]),
        turns=tuple(_turn(row) for row in rows),
        returns=tuple(first["returns"]),
        forfeited_by=first["forfeited_by"],
        cut=first["cut"],
    )


def _turn(row: dict[str, Any]) -> Turn:
    """Return the turn of a row."""
    segments, at, said = [], 0, 0
    for kind, length in zip(row["segment_kinds"], row["segment_lengths"], strict=True):
        ids = tuple(row["ids"][at : at + length])
        at += length
        sampled = length if kind == "sampled" else 0
        logprobs = tuple(row["logprobs"][said : said + sampled])
        kept = tuple(tuple(ids) for ids in row["kept"][said : said + sampled]) if row["kept"] else ()
        said += sampled
        segments.append(Segment(kind=kind, ids=ids, logprobs=logprobs, kept=kept))
    return Turn(
        seat=row["seat"],
        turn_index=row["turn_index"],
        agent=row["agent"],
        state_key=row["state_key"],
        legal_actions=tuple(row["legal_actions"]),
        reply=row["reply"],
        action=row["action"],
        event=row["event"],
        rewards=dict(zip(row["reward_names"], row["reward_values"], strict=True)),
        segments=tuple(segments),
        conversation=row["conversation"],
        truncated=row["truncated"],
        weights_version=row["weights_version"],
        view=row["view"],
        verdict=_verdict(row),
        playout=row["playout"],
    )


def _verdict_columns(turn: Turn) -> tuple[Any, ...]:
    """Return what the oracle said of a turn: values and whether each is best, in the order of the legal actions; empty if nothing."""
    verdict = turn.verdict
    if verdict is None:
        return None, None, None, None, None
    best = [action in verdict.best for action in verdict.actions]
    return verdict.values, best, verdict.certainty, verdict.bound, verdict.entropy


def _verdict(row: dict[str, Any]) -> Verdict | None:
    """Return the verdict of a row."""
    if row["oracle_values"] is None:
        return None
    actions = tuple(row["legal_actions"])
    return Verdict(
        actions=actions,
        values=tuple(row["oracle_values"]),
        best=frozenset(action for action, best in zip(actions, row["oracle_best"], strict=True) if best),
        certainty=row["oracle_certainty"],
        bound=row["oracle_bound"],
        entropy=row["oracle_entropy"],
    )

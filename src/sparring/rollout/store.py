"""The episode store: Parquet parts, one row per turn, whole or absent, queryable with DuckDB.

SELECT role, avg(seat_return) FROM 'runs/demo/episodes/*.parquet' WHERE turn_index = 0 GROUP BY role
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparring.rollout.episode_columns import COLUMNS, SCHEMA
from sparring.rollout.episode_rows import episode_of, rows_of
from sparring.rollout.parts import Parts
from sparring.types import Episode


class EpisodeStore(Parts):
    """A folder of Parquet parts, one per stored step."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, COLUMNS)

    def append(self, step: int, episodes: Sequence[Episode]) -> Path:
        """Write the episodes of a step as one part; a part of the same step is replaced.

        Raises:
            RunError: the disk is full or not writable.
        """
        return self.put(step, to_bytes([(step, episode) for episode in episodes]))

    def episodes(
        self, wanted: Callable[[int], bool] = lambda _: True
    ) -> Iterator[tuple[int, Episode]]:
        """Yield (step, episode) of everything that can be read, as it was written.

        Args:
            wanted: whether the part of a step is read.
        """
        for part in self.each(lambda table: list(episodes_in(table)), wanted):
            yield from part

    def one(self, step: int, number: int) -> Episode | None:
        """Return an episode of a step; None where the step has none of this number.

        Raises:
            RunError: the part is of a newer version.
            DAMAGED: one of these (of ``rollout.parts``): the part is gone or cannot be read.
        """
        table = self.load(self.path(step))
        found = list(episodes_in(table.filter(pc.equal(table["episode_id"], number))))
        return found[0][1] if found else None


def to_bytes(episodes: Sequence[tuple[int, Episode]]) -> bytes:
    """Return (step, episode) pairs as a Parquet file, one row per turn."""
    return COLUMNS.written(_table(episodes))


def to_stream(episodes: Sequence[tuple[int, Episode]]) -> bytes:
    """Return (step, episode) pairs as a stream of Arrow, for a process that reads it at once."""
    table, sink = _table(episodes), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_stream(data: bytes) -> list[tuple[int, Episode]]:
    """Return the (step, episode) pairs that ``to_stream`` was given, by this version of Sparring.

    Raises:
        ValueError, pa.ArrowException: this is no such stream, or it is damaged.
    """
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    if table.schema != SCHEMA:
        raise ValueError("its columns are not those of episodes")
    table.validate(full=True)
    return list(episodes_in(table))


def _table(episodes: Sequence[tuple[int, Episode]]) -> pa.Table:
    """Return (step, episode) pairs as a table, one row per turn."""
    texts: dict[int, str | None] = {}  # of each environment, by the object that says it
    rows = [row for step, episode in episodes for row in rows_of(step, episode, texts)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [_array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def from_bytes(data: bytes, *, rows: int | None = None) -> list[tuple[int, Episode]]:
    """Return the (step, episode) pairs that ``to_bytes`` was given.

    With ``rows`` they are those of the first ``rows`` turns; the last may be cut.

    Raises:
        ValueError, pa.ArrowException: this is no such file, or it is damaged, of a newer version,
            or too large to be read.
    """
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return list(episodes_in(COLUMNS.read(file, "A file of episodes").slice(0, rows)))


def episodes_in(table: pa.Table) -> Iterator[tuple[int, Episode]]:
    """Yield (step, episode) of the rows of a part, all of an episode or none, in order."""
    rows: list[dict[str, Any]] = []
    for row in table.to_pylist():
        if rows and (row["step"], row["episode_id"]) != (rows[0]["step"], rows[0]["episode_id"]):
            yield rows[0]["step"], episode_of(rows)
            rows = []
        rows.append(row)
    if rows:
        yield rows[0]["step"], episode_of(rows)


def _array(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column, half characters replaced.

    An environment or an endpoint may have said them.
    """
    try:
        return pa.array(column, type=kind)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in column], type=kind)


def _encodable(value: Any) -> Any:
    """Return a text, or the texts of a list or record, as UTF-8 can hold them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {name: _encodable(part) for name, part in value.items()}
    return [_encodable(part) for part in value] if isinstance(value, list | tuple) else value

"""Folders of Parquet parts, one per step, each complete or absent, with a version of its columns.

A part of an older version is read, with default values in missing columns. A part of a newer
version is an error. Damaged files and files that are not parts are skipped and counted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sparring.core.errors import RunError
from sparring.core.files import TEMPORARY, disk_errors, machine_bytes, write_bytes_atomic

log = logging.getLogger(__name__)
T = TypeVar("T")
BYTES_PER_VALUE = 8  # bytes of a value in memory, without strings
# errors of reading a damaged or foreign file
DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError)
_NAME = re.compile(r"part-([0-9]{6,})\.parquet")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of one kind of file.

    Attributes:
        kind: content of the files, e.g. "episodes"; it names the version in a file's metadata.
        version: version of the columns, from 0. A file without a version has version 0.
        schema: names and types of this version.
        renamed: the current name of each column that had another name in older files.
        added: the default value of each column that older files lack.
    """

    kind: str
    version: int
    schema: pa.Schema
    renamed: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        """The key of the version in a file's metadata."""
        return f"sparring.{self.kind}.version".encode()

    def to_bytes(self, rows: pa.Table) -> bytes:
        """Return rows with these columns as the bytes of a file."""
        sink = pa.BufferOutputStream()
        rows_with_version = rows.replace_schema_metadata({self.key: str(self.version).encode()})
        pq.write_table(rows_with_version, sink, compression="zstd", write_page_checksum=True)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def read(
        self, file: pq.ParquetFile, name: str, column_names: Collection[str] | None = None
    ) -> pa.Table:
        """Return the rows of a file of this version or an older one, in this version's columns.

        Args:
            file: the open file.
            name: the file's name, for errors.
            column_names: names of the columns to read; None: all.

        Raises:
            RunError: the file has a newer version.
            ValueError, pa.ArrowException: the file is foreign, damaged, or too large to be read.
        """
        metadata = file.schema_arrow.metadata or {}
        version_text = metadata.get(self.key, b"0")
        if not version_text.isdigit():
            raise ValueError(f"the version is {version_text!r}")
        version = int(version_text)
        if version > self.version:
            raise RunError(
                f"{name} has version {version} of the columns of {self.kind}, and this Sparring "
                f"reads up to {self.version}. Install the newer Sparring that wrote it."
            )
        schema = self.schema
        if column_names is not None:
            schema = pa.schema([column for column in schema if column.name in column_names])
        return self._to_schema(_read_if_fits(file, self._names_in_file(file, schema)), schema)

    def _names_in_file(self, file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
        names = file.schema_arrow.names
        return [name for name in names if self.renamed.get(name, name) in schema.names]

    def _to_schema(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        table = table.rename_columns([self.renamed.get(name, name) for name in table.column_names])
        columns = []
        for column in schema:
            if column.name in table.column_names:
                columns.append(table[column.name].cast(column.type))
            elif column.name in self.added:
                columns.append(pa.array([self.added[column.name]] * len(table), column.type))
            else:
                raise ValueError(f"there is no column {column.name!r}")
        return pa.Table.from_arrays(columns, schema=schema)


def _read_if_fits(file: pq.ParquetFile, names: list[str]) -> pa.Table:
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    num_values = sum(
        group.column(index).num_values for group in groups for index in range(group.num_columns)
    )
    if num_values * BYTES_PER_VALUE > machine_bytes():
        raise ValueError(f"{num_values} values are more than this machine's memory holds")
    table = file.read(columns=names)
    table.validate(full=True)  # headers of pages have no checksum
    return table


class Parts:
    """A folder of parts, one per stored step."""

    def __init__(self, folder: Path, columns: Columns) -> None:
        self.folder, self.columns = folder, columns

    def put(self, step: int, data: bytes) -> Path:
        """Write a step's part; a part of the same step is replaced.

        Raises:
            RunError: the disk is full or not writable.
        """
        with disk_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
        path = self.path(step)
        write_bytes_atomic(path, data)
        return path

    def truncate_after(self, step: int) -> None:
        """Remove the parts of later steps, and temporary files of a killed process."""
        for step_of_part, path in self._parts():
            if step_of_part > step and path.is_file():
                path.unlink()
        for path in self.folder.glob(f"{TEMPORARY}*"):
            path.unlink()

    def prune(self, every: int, keep: int) -> None:
        """Keep at most ``keep`` parts: half of them the newest, the others spread over the run.

        The result depends only on the newest step, not on earlier calls or a killed process.

        Args:
            every: steps between two parts, at least 1.
            keep: largest number of parts that stay; 0: all stay.
        """
        parts = self._parts() if keep else []
        num_recent = (keep + 1) // 2
        num_older = parts[-1][0] // every - num_recent if parts else 0
        spacing = 1
        while num_older // spacing > keep - num_recent:
            spacing *= 2
        for step, path in parts:
            if step <= num_older * every and step % (spacing * every):
                path.unlink(missing_ok=True)

    def read(self, is_wanted: Callable[[int], bool] = lambda _: True) -> pa.Table:
        """Return all rows in order of steps, and warn of damaged or foreign files.

        Args:
            is_wanted: returns whether to read the part of a step.

        Raises:
            RunError: a part has a newer version.
        """
        tables = list(self.map_parts(lambda table: table, is_wanted))
        return pa.concat_tables(tables) if tables else self.columns.schema.empty_table()

    def map_parts(
        self, function: Callable[[pa.Table], T], is_wanted: Callable[[int], bool] = lambda _: True
    ) -> Iterator[T]:
        """Yield the function's value for each part, oldest first, and warn of unreadable parts.

        Args:
            function: takes the rows of a part.
            is_wanted: returns whether to read the part of a step.

        Raises:
            RunError: a part has a newer version.
        """
        parts, num_readable = self._parts(), 0
        unreadable = sorted(
            {path.name for path in self.folder.glob("[!.]*")} - {path.name for _, path in parts}
        )
        for step, path in parts:
            if not is_wanted(step):
                continue
            try:
                value = function(self.load(path))
            except RunError:
                raise
            except DAMAGED:
                unreadable.append(path.name)
            else:
                num_readable += 1
                yield value
        if unreadable:
            log.warning(
                "%d of %d parts in %s cannot be read and are left out: %s",
                len(unreadable),
                len(unreadable) + num_readable,
                self.folder,
                unreadable,
            )

    def load(self, path: Path, column_names: Collection[str] | None = None) -> pa.Table:
        """Return the rows of a part, in the columns of this version.

        Args:
            path: the part's path.
            column_names: names of the columns to read; None: all.

        Raises:
            RunError: the part has a newer version.
            DAMAGED: one of these errors if the part cannot be read.
        """
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return self.columns.read(file, str(path), column_names)

    def path(self, step: int) -> Path:
        """Return the path of a step's part, which may be missing."""
        return self.folder / f"part-{step:06d}.parquet"

    def steps(self) -> list[int]:
        """Return the steps that have a part, in order."""
        return [step for step, _ in self._parts()]

    def _parts(self) -> list[tuple[int, Path]]:
        return sorted(
            (int(match[1]), path)
            for path in self.folder.glob("part-*")
            if (match := _NAME.fullmatch(path.name))
        )

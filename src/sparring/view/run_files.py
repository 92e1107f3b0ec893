"""Reads regular files of a run folder for the viewer, also while a run writes to them."""

from __future__ import annotations

import math
import os
import stat
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparring.core.files import parse_json
from sparring.run.events import MAX_FIGURE, MAX_STEP

Signature = tuple[int, int, int]  # size, time of the last change (ns) and inode of a file


def signature(path: Path) -> Signature | None:
    """Return a value that changes with a file or folder; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def read_regular_file(path: Path, offset: int) -> tuple[bytes, int]:
    """Read a regular file from an offset on; return (bytes, inode).

    Raises:
        OSError: the file does not exist, or is a link, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is not a regular file")
        stream.seek(offset)
        return stream.read(), status.st_ino


def is_inside(folder: Path, path: Path) -> bool:
    """Return whether a path is inside a folder, after its links are resolved."""
    return path.resolve().is_relative_to(folder.resolve())


Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """The values of a metric in the lines of its file.

    Attributes:
        lines: numbers of the lines with this metric, from 0.
        values: the value in each of these lines; NaN if it was not finite.
    """

    lines: array[int]
    values: array[float]


@dataclass(kw_only=True)
class JsonLines(ABC):
    """The complete lines of a file of JSON objects, each with its step.

    Attributes:
        path: path of the file, which may not exist yet.
        generation: number of times that the file was replaced or shortened.
        damaged: number of skipped lines that do not belong to a step.
    """

    path: Path
    generation: int = 0
    damaged: int = 0
    _offset: int = 0  # position of the next line in the file, in bytes
    _num_bytes: int = 0  # size of the file when it was last read
    _inode: int = 0  # inode of the file when it was last read

    def update(self) -> bool:
        """Read new lines; return whether anything changed.

        A missing or irregular file has no lines.
        """
        status = signature(self.path)
        if status is None:
            return self._offset > 0 and self._restart()
        if status[0] == self._num_bytes and status[2] == self._inode:
            return False
        if self._offset and (status[0] < self._num_bytes or status[2] != self._inode):
            self._restart()
        try:
            data, self._inode = read_regular_file(self.path, self._offset)
        except OSError:
            return False
        self._num_bytes = self._offset + len(data)
        complete_lines = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete_lines)
        for text in complete_lines.decode("utf-8", "replace").splitlines():
            self._read(text)
        return bool(complete_lines)

    def _read(self, text: str) -> None:
        """Parse a line; count it as damaged if it does not belong to a step."""
        try:
            line = parse_json(text)
        except ValueError:
            line = None
        step = line.get("step") if isinstance(line, dict) else None
        if isinstance(line, dict) and type(step) is int and 0 <= step < MAX_STEP:
            self.add(step, line)
        else:
            self.damaged += 1

    def _restart(self) -> bool:
        self.generation, self._offset, self._num_bytes = self.generation + 1, 0, 0
        self.damaged = 0
        self.clear()
        return True

    @abstractmethod
    def add(self, step: int, line: dict[str, Any]) -> None:
        """Store the values of a line."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all stored values."""


@dataclass(kw_only=True)
class FigureColumns(JsonLines):
    """metrics.jsonl or timing.jsonl by columns.

    Attributes:
        steps: step of each line.
        curves: values of each metric, by its name.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    curves: dict[str, Curve] = field(default_factory=dict)

    def add(self, step: int, line: dict[str, Any]) -> None:
        """Store the values of a line."""
        number = len(self.steps)
        self.steps.append(step)
        for name, value in line.items():
            if name == "step" or not _is_figure(value):
                continue
            curve = self.curves.get(name)
            if curve is None:
                curve = self.curves[name] = Curve(array("q"), array("d"))
            curve.lines.append(number)
            curve.values.append(math.nan if value is None else value)

    def clear(self) -> None:
        """Remove all stored values."""
        self.steps, self.curves = array("q"), {}

    def newest(self, name: str) -> tuple[int, float] | None:
        """Return (step, newest value) of a metric; None without values."""
        curve = self.curves.get(name)
        if curve is None:
            return None
        return self.steps[curve.lines[-1]], curve.values[-1]

    def column(self, name: str) -> Numbers:
        """Return a metric for every line; NaN for lines without it."""
        values = np.full(len(self.steps), np.nan)
        curve = self.curves.get(name)
        if curve is not None:
            values[np.array(curve.lines)] = np.array(curve.values)
        return values


@dataclass(kw_only=True)
class HealthEvents(JsonLines):
    """health.jsonl: the events of health rules.

    Attributes:
        events: as they were recorded, oldest first.
    """

    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, step: int, line: dict[str, Any]) -> None:
        """Store an event."""
        value = line.get("value")
        self.events.append(
            {
                "step": step,
                "metric": str(line.get("metric", "")),
                "message": str(line.get("message", "")),
                "value": value if _is_figure(value) else None,
                "stops": line.get("stops") is True,
            }
        )

    def clear(self) -> None:
        """Remove all stored values."""
        self.events = []


def _is_figure(value: Any) -> bool:
    return value is None or (
        type(value) in (int, float) and (value != value or abs(value) < MAX_FIGURE)
    )


def thinned_indices(x: Numbers, y: Numbers, points: int) -> NDArray[np.int64]:
    """Return the indices of a thinned curve: the smallest and largest value of each bucket.

    Args:
        x: positions of the points; only the number of points is used.
        y: values of the points; NaN if missing.
        points: largest number of points, at least 2.
    """
    if len(x) <= points:
        return np.arange(len(x))
    buckets = max(points // 2, 1)
    bucket_starts = np.linspace(0, len(y), buckets + 1).astype(np.int64)[:-1]
    without_nan_low = np.where(np.isnan(y), np.inf, y)
    without_nan_high = np.where(np.isnan(y), -np.inf, y)
    bucket_ends = np.append(bucket_starts[1:], len(y))
    indices: set[int] = set()
    for begin, end in zip(bucket_starts.tolist(), bucket_ends.tolist(), strict=True):
        indices.add(begin + int(np.argmin(without_nan_low[begin:end])))
        indices.add(begin + int(np.argmax(without_nan_high[begin:end])))
    return np.array(sorted(indices), dtype=np.int64)


def axis(kind: str, steps: Sequence[int], timing: FigureColumns) -> Numbers:
    """Return the positions of steps on an axis.

    Args:
        kind: "step", or a total: "plays", "tokens" trained on, or "seconds" of all work.
        steps: numbers of steps.
        timing: timing.jsonl of the run; a missing step has the position of the step before it.
    """
    if kind == "step":
        return np.array(steps, dtype=np.float64)
    seconds = np.nan_to_num(timing.column("seconds/round"))
    if kind == "seconds":
        per_step = seconds + np.nan_to_num(timing.column("seconds/evaluation"))
    else:
        rate = "games_per_second" if kind == "plays" else "tokens_per_second"
        per_step = np.rint(np.nan_to_num(timing.column(rate)) * seconds)
    totals = np.concatenate([[0.0], np.cumsum(per_step)])
    timing_steps = np.array(timing.steps, dtype=np.int64)
    indices = np.searchsorted(timing_steps, np.array(steps, dtype=np.int64), side="right")
    positions: Numbers = totals[indices]
    return positions

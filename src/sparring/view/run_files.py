"""The viewer's readers for files of a run folder: regular files only, and growing figures."""

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
from sparring.run.events import LARGEST, LAST_STEP

Signature = tuple[
    int, int, int
]  # of a file: size, time of its last change (ns), number on the disk


def signature(path: Path) -> Signature | None:
    """Return the signature of a file or folder, which changes with it; None if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def read_from(path: Path, offset: int) -> tuple[bytes, int]:
    """Return (bytes of a file from an offset on, its inode).

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


def is_own(folder: Path, path: Path) -> bool:
    """Return whether a path, links resolved, is inside a folder."""
    return path.resolve().is_relative_to(folder.resolve())


Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """A figure over the lines of its file.

    Attributes:
        lines: numbers of the lines that have it, from 0.
        values: one per line; NaN if it was not finite.
    """

    lines: array[int]
    values: array[float]


@dataclass(kw_only=True)
class JsonLines(ABC):
    """The complete lines of a file of JSON objects, each with its step.

    Attributes:
        path: of the file, which may not exist yet.
        generation: counts replacements of the file by a shorter or another one.
        damaged: number of skipped lines, which are not figures of a step.
    """

    path: Path
    generation: int = 0
    damaged: int = 0
    _offset: int = 0  # of the line that is read next
    _seen: int = 0  # bytes of the file at the last look
    _file: int = 0  # its number on the disk

    def update(self) -> bool:
        """Read new lines; return whether anything changed.

        A file that is missing or not regular has no lines.
        """
        current = signature(self.path)
        if current is None:
            return self._offset > 0 and self._restart()
        if current[0] == self._seen and current[2] == self._file:
            return False
        if self._offset and (current[0] < self._seen or current[2] != self._file):
            self._restart()
        try:
            data, self._file = read_from(self.path, self._offset)
        except OSError:
            return False
        self._seen = self._offset + len(data)
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for text in complete.decode("utf-8", "replace").splitlines():
            self._read(text)
        return bool(complete)

    def _read(self, text: str) -> None:
        """Parse a line; count it as damaged if it is not one of a step."""
        try:
            line = parse_json(text)
        except ValueError:
            line = None
        step = line.get("step") if isinstance(line, dict) else None
        if isinstance(line, dict) and type(step) is int and 0 <= step < LAST_STEP:
            self.take(step, line)
        else:
            self.damaged += 1

    def _restart(self) -> bool:
        self.generation, self._offset, self._seen = self.generation + 1, 0, 0
        self.damaged = 0
        self.forget()
        return True

    @abstractmethod
    def take(self, step: int, line: dict[str, Any]) -> None:
        """Store the figures of a line."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all stored figures."""


@dataclass(kw_only=True)
class FigureColumns(JsonLines):
    """metrics.jsonl or timing.jsonl by columns.

    Attributes:
        steps: of each line.
        curves: by the name of the figure.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    curves: dict[str, Curve] = field(default_factory=dict)

    def take(self, step: int, line: dict[str, Any]) -> None:
        """Take the figures of a line."""
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

    def forget(self) -> None:
        """Drop what was taken."""
        self.steps, self.curves = array("q"), {}

    def newest(self, name: str) -> tuple[int, float] | None:
        """Return the newest value of a figure with its step."""
        curve = self.curves.get(name)
        if curve is None:
            return None
        return self.steps[curve.lines[-1]], curve.values[-1]

    def column(self, name: str) -> Numbers:
        """Return a figure for every line; NaN for lines without it."""
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

    def take(self, step: int, line: dict[str, Any]) -> None:
        """Take an event."""
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

    def forget(self) -> None:
        """Drop what was taken."""
        self.events = []


def _is_figure(value: Any) -> bool:
    return value is None or (
        type(value) in (int, float) and (value != value or abs(value) < LARGEST)
    )


def thinned(x: Numbers, y: Numbers, points: int) -> NDArray[np.int64]:
    """Return the indices of a thinned curve: smallest and largest of equally large buckets.

    Args:
        x: places, which are only counted.
        y: values; NaN for missing ones.
        points: largest number of points, at least 2.
    """
    if len(x) <= points:
        return np.arange(len(x))
    buckets = max(points // 2, 1)
    cuts = np.linspace(0, len(y), buckets + 1).astype(np.int64)[:-1]
    smallest = np.where(np.isnan(y), np.inf, y)
    largest = np.where(np.isnan(y), -np.inf, y)
    ends = np.append(cuts[1:], len(y))
    chosen: set[int] = set()
    for begin, end in zip(cuts.tolist(), ends.tolist(), strict=True):
        chosen.add(begin + int(np.argmin(smallest[begin:end])))
        chosen.add(begin + int(np.argmax(largest[begin:end])))
    return np.array(sorted(chosen), dtype=np.int64)


def axis(kind: str, steps: Sequence[int], timing: FigureColumns) -> Numbers:
    """Return the positions of steps on an axis.

    Args:
        kind: step, plays, tokens (trained on), or seconds (of rounds and evaluations).
        steps: numbers of steps.
        timing: of the run; a missing step has the position of the last one before it.
    """
    if kind == "step":
        return np.array(steps, dtype=np.float64)
    seconds = np.nan_to_num(timing.column("seconds/round"))
    if kind == "seconds":
        each = seconds + np.nan_to_num(timing.column("seconds/evaluation"))
    else:
        rate = "games_per_second" if kind == "plays" else "tokens_per_second"
        each = np.rint(np.nan_to_num(timing.column(rate)) * seconds)
    total = np.concatenate([[0.0], np.cumsum(each)])
    present = np.array(timing.steps, dtype=np.int64)
    places: Numbers = total[np.searchsorted(present, np.array(steps, dtype=np.int64), side="right")]
    return places

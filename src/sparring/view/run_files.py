"""Files of a run folder as the viewer opens them: regular ones, and figures as they grow.

None leads out of the folder.
"""

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
    """Return what changes when a file or folder does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def read_from(path: Path, offset: int) -> tuple[bytes, int]:
    """Return the bytes of a file from an offset on, and the file's number on the disk.

    Raises:
        OSError: there is no such file, or it is a link, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path.name} is no file")
        stream.seek(offset)
        return stream.read(), found.st_ino


def is_own(folder: Path, path: Path) -> bool:
    """Return whether a path, links resolved, is inside a folder."""
    return path.resolve().is_relative_to(folder.resolve())


Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """A figure over the lines of its file.

    Attributes:
        lines: numbers of the lines that have it, from 0.
        values: one per line; not-a-number where it was not finite.
    """

    lines: array[int]
    values: array[float]


@dataclass(kw_only=True)
class Lines(ABC):
    """The whole lines of a file of JSON objects, each with its step.

    Attributes:
        path: of the file; it may not be there yet.
        generation: counts how often the file was replaced by a shorter or another one.
        damaged: lines that are no figures of a step, and were passed over.
    """

    path: Path
    generation: int = 0
    damaged: int = 0
    _offset: int = 0  # of the line that is read next
    _seen: int = 0  # bytes of the file at the last look
    _file: int = 0  # its number on the disk

    def update(self) -> bool:
        """Read what was written since the last call; return whether there was anything.

        A file that is gone, or no plain file, has no lines.
        """
        found = signature(self.path)
        if found is None:
            return self._offset > 0 and self._restart()
        if found[0] == self._seen and found[2] == self._file:
            return False
        if self._offset and (found[0] < self._seen or found[2] != self._file):
            self._restart()
        try:
            data, self._file = read_from(self.path, self._offset)
        except OSError:
            return False
        self._seen = self._offset + len(data)
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for text in whole.decode("utf-8", "replace").splitlines():
            self._read(text)
        return bool(whole)

    def _read(self, text: str) -> None:
        """Take a line, if it is one of a step."""
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
        """Forget everything: the file is another one now."""
        self.generation, self._offset, self._seen = self.generation + 1, 0, 0
        self.damaged = 0
        self.forget()
        return True

    @abstractmethod
    def take(self, step: int, line: dict[str, Any]) -> None:
        """Take the figures of a line."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what was taken."""


@dataclass(kw_only=True)
class Figures(Lines):
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
        """Return a figure for every line; not-a-number where a line has none."""
        found = np.full(len(self.steps), np.nan)
        curve = self.curves.get(name)
        if curve is not None:
            found[np.array(curve.lines)] = np.array(curve.values)
        return found


@dataclass(kw_only=True)
class Events(Lines):
    """health.jsonl: what health rules found.

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
    """Return which points stay: of each bucket of equally many the smallest and the largest.

    Args:
        x: places, which are only counted.
        y: values; not-a-number where there is none.
        points: how many may stay, at least 2.
    """
    if len(x) <= points:
        return np.arange(len(x))
    buckets = max(points // 2, 1)
    cuts = np.linspace(0, len(y), buckets + 1).astype(np.int64)[:-1]
    smallest = np.where(np.isnan(y), np.inf, y)
    largest = np.where(np.isnan(y), -np.inf, y)
    ends = np.append(cuts[1:], len(y))
    kept: set[int] = set()
    for begin, end in zip(cuts.tolist(), ends.tolist(), strict=True):
        kept.add(begin + int(np.argmin(smallest[begin:end])))
        kept.add(begin + int(np.argmax(largest[begin:end])))
    return np.array(sorted(kept), dtype=np.int64)


def axis(kind: str, steps: Sequence[int], timing: Figures) -> Numbers:
    """Return where steps lie on an axis.

    Args:
        kind: step, plays, tokens (trained on), or seconds (of rounds and measuring).
        steps: that are placed.
        timing: of the run; a step that it lacks lies where the last one before it does.
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
    known = np.array(timing.steps, dtype=np.int64)
    found: Numbers = total[np.searchsorted(known, np.array(steps, dtype=np.int64), side="right")]
    return found

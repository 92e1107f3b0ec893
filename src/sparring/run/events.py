"""Figures as they come: metrics.jsonl, health.jsonl and league.jsonl (functions of config, seed and
code), timing.jsonl, and the sinks of the run, which it does without where they fail.

Metrics, in timing.jsonl:
    failed_sinks            sinks (logging.sinks) that did not take the figures of the step; only
                            where there are any
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.config import PluginConfig, RunConfig
from sparring.config.plugins.guard import Call
from sparring.config.plugins.registry import Bound
from sparring.core.errors import ConfigError, HungError, SparringError
from sparring.core.files import disk_errors, parse_json, write_bytes_atomic
from sparring.run.sinks.base import Sink, Start

log = logging.getLogger(__name__)
PATIENCE = 3  # failures in a row from which on a sink rests between tries: 2, 4, 8 ... steps
LONGEST = 8  # power of 2 of the longest rest


def check_packages(sinks: Sequence[PluginConfig]) -> None:
    """Check that what the sinks import is there, before a run changes anything.

    Raises:
        ConfigError: a package is missing; the message names the extra that brings it.
    """
    for sink in sinks:
        bound = sink.bind("run.sinks")
        package = getattr(bound.plugin.module, "PACKAGE", None)
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"The {bound} needs the package {package}, which is not there; run pip install "
                f"'sparring[{package}]', or leave it out of logging.sinks."
            )


@dataclass(kw_only=True, slots=True)
class _OpenSink:
    bound: Bound
    sink: Sink
    failures: int = 0  # in a row
    rest: float = 0  # steps until it is asked again


class Sinks:
    """The sinks of a run that starts or goes on.

    Raises:
        SparringError: one of them cannot be opened.
    """

    def __init__(self, sinks: Sequence[PluginConfig], start: Start) -> None:
        self._open: list[_OpenSink] = []
        for bound in [sink.bind("run.sinks") for sink in sinks]:
            try:
                self._open.append(_OpenSink(bound=bound, sink=bound(start)))
            except SparringError:
                self.close()
                raise

    @classmethod
    def of(cls, config: RunConfig, folder: Path, step: int) -> Sinks:
        """Return those of a run after ``step`` steps."""
        check_packages(config.logging.sinks)
        whole = config.model_dump(mode="json")
        start = Start(folder=folder, name=config.name, seed=config.seed, step=step, config=whole)
        return cls(config.logging.sinks, start)

    def write(self, step: int, figures: Mapping[str, float]) -> int:
        """Give the finite figures of a step to all; return how many did not take them."""
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return sum(not self._taken(one, step, finite) for one in self._open)

    def _taken(self, one: _OpenSink, step: int, figures: Mapping[str, float]) -> bool:
        if one.rest:
            one.rest -= 1
            return False
        try:
            with Call(one.bound):
                one.sink.write(step, figures)
        except SparringError as error:
            self._failed(one, step, error)
            return False
        one.failures = 0
        return True

    def _failed(self, one: _OpenSink, step: int, error: SparringError) -> None:
        """Say once in a row of failures that a sink failed, and let it rest if it fails on."""
        one.failures += 1
        if one.failures >= PATIENCE:
            one.rest = 2 ** min(one.failures - PATIENCE + 1, LONGEST)
        if isinstance(error, HungError):
            one.rest = math.inf
        if one.failures == 1 or one.rest == math.inf:
            then = "asked no more" if one.rest == math.inf else "tried again"
            log.warning(
                "%s Step %d is not in it; it is %s, and the run goes on.", error, step, then
            )

    def close(self) -> None:
        """Close all; what cannot be closed is said."""
        for one in self._open:
            try:
                with Call(one.bound):
                    one.sink.close()
            except SparringError as error:
                log.warning("The %s could not be closed: %s", one.bound, error)


LARGEST = 1e150  # the square of a figure is still a number
LAST_STEP = 1 << 53  # beyond this a step is no exact number in a chart
METRICS, TIMING, HEALTH = "metrics.jsonl", "timing.jsonl", "health.jsonl"
LEAGUE = "league.jsonl"  # which snapshots were taken; there is none where none was


class MetricsWriter:
    """Appends one line per step to each file, one per event to health.jsonl, and one per snapshot
    to league.jsonl.

    A torn last line is dropped when a run goes on.

    Args:
        folder: of the run.
        sinks: where the figures go besides; None: nowhere.
    """

    def __init__(self, folder: Path, sinks: Sinks | None = None) -> None:
        self.folder, self._sinks = folder, sinks

    def truncate_after(self, step: int) -> None:
        """Drop the lines of later steps, and a torn last line."""
        for name in (METRICS, TIMING, HEALTH, LEAGUE):
            path = self.folder / name
            if name == LEAGUE and not path.exists():
                continue
            lines = [line for line in _lines(path) if line["step"] <= step]
            if name in (METRICS, TIMING) and (last := lines[-1]["step"] if lines else 0) < step:
                log.warning(
                    "%s is damaged: it has figures up to step %d, and those of the steps up to %d "
                    "are lost.",
                    path,
                    last,
                    step,
                )
            data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
            if not path.exists() or path.read_bytes() != data:
                write_bytes_atomic(path, data)

    def write(self, step: int, metrics: Mapping[str, float], timing: Mapping[str, float]) -> None:
        """Append a step's figures to both files, and give them to the sinks.

        Raises:
            RunError: the disk is full or not writable.
        """
        failed = self._sinks.write(step, {**metrics, **timing}) if self._sinks is not None else 0
        timing = {**timing, "failed_sinks": failed} if failed else timing
        for name, values in ((METRICS, metrics), (TIMING, timing)):
            self._append(
                name, {"step": step, **{key: _plain(value) for key, value in values.items()}}
            )

    def record(self, step: int, events: Iterable[Mapping[str, Any]]) -> None:
        """Append what health rules found in a step to health.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for event in events:
            self._append(HEALTH, {**event, "step": step})

    def snapshots(self, step: int, taken: Iterable[Mapping[str, Any]]) -> None:
        """Append which snapshots a step has taken into the league to league.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for one in taken:
            self._append(LEAGUE, {**one, "step": step})

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (
            disk_errors(self.folder / name),
            open(self.folder / name, "a", encoding="utf-8") as stream,
        ):
            stream.write(json.dumps(line, sort_keys=True) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Return the figures of the steps written so far, each with its ``step``."""
        return read_figures(self.folder / METRICS)

    def latest(self) -> dict[str, float]:
        """Return the last value of every metric written so far."""
        values: dict[str, float] = {}
        for line in self.lines():
            values.update(
                {key: math.nan if value is None else value for key, value in line.items()}
            )
        values.pop("step", None)
        return values

    def close(self) -> None:
        """Close the sinks."""
        if self._sinks is not None:
            self._sinks.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; a torn last line is left out, a missing file is empty."""
    return list(_lines(path))


def read_figures(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of figures as ``read_lines`` does, without what is no figure:
    text, lists, numbers beyond reason.
    """
    return [
        {key: value for key, value in line.items() if _is_figure(value)} for line in _lines(path)
    ]


def torn_after(path: Path) -> int | None:
    """Return the last step that can be read of a torn file of figures; None if it is not torn."""
    if not path.is_file():
        return None
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            parse_json(text)
        except ValueError:
            return max((line["step"] for line in _lines(path)), default=0)
    return None


def _is_figure(value: Any) -> bool:
    return value is None or (
        type(value) in (int, float) and (value != value or abs(value) < LARGEST)
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a file of JSON objects."""
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = parse_json(text)
        except ValueError:
            return  # torn by a kill in the middle of a write; what follows cannot be trusted either
        if (
            isinstance(line, dict)
            and type(line.get("step")) is int
            and 0 <= line["step"] < LAST_STEP
        ):
            yield line


def _plain(value: float) -> float | None:
    """Return a number as JSON can hold it: not-a-number and infinities become null."""
    return float(value) if math.isfinite(value) else None

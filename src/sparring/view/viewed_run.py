"""Run folders in the viewer, which never writes to them. Requests name a run by its number."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.config.yaml_text import parse_yaml
from sparring.core.errors import SparringError
from sparring.core.files import parse_json
from sparring.report.progress import key_figures
from sparring.run import checkpoint
from sparring.run.events import HEALTH, METRICS, TIMING
from sparring.run.folder import CONFIG, HOLDER, MARKER, PLAYED_FOLDER
from sparring.run.provenance import PROVENANCE, starts_in
from sparring.view.http_requests import one_line
from sparring.view.run_files import (
    FigureColumns,
    HealthEvents,
    Signature,
    axis,
    is_inside,
    read_regular_file,
    signature,
)

RECENT = 60.0  # seconds after its last metrics during which a run counts as training
NUM_LATEST = 20  # number of newest steps whose median rate is shown
SUBFOLDERS = ("episodes", "credit", "checkpoints", PLAYED_FOLDER)
BY_PEOPLE = f"{PLAYED_FOLDER}/episodes"
FILES = (METRICS, TIMING, HEALTH, CONFIG, MARKER, HOLDER, PROVENANCE)
WATCHED = (*FILES, *SUBFOLDERS, BY_PEOPLE)
PEOPLE = 1 << 20  # added to a run's number in the index for its episodes with people
DEPTH = 3  # number of folder levels that are searched for runs


class ViewedRun:
    """A run folder.

    Args:
        number: number of the run in requests.
        path: path of the folder.
        name: displayed name of the run.
    """

    people = False  # whether the folder has episodes that people played

    def __init__(self, number: int, path: Path, name: str) -> None:
        self.number, self.path, self.name = number, path, name
        self.changed = 0  # version of ``RunWatcher`` at the last change
        self.metrics = FigureColumns(path=path / METRICS)
        self.timing = FigureColumns(path=path / TIMING)
        self.health = HealthEvents(path=path / HEALTH)
        self.config: Mapping[str, Any] = {}
        self.flat: dict[str, Any] = {}  # the configuration: value by dotted key
        self.trouble: str | None = None  # why the configuration cannot be read
        self.starts: list[dict[str, Any]] = []  # command, commit, machine, versions of each start
        self.lock = threading.Lock()
        self._config: Signature | None = None
        self._provenance: Signature | None = None
        self._seen: tuple[Signature | None, ...] | None = None

    def changes(self) -> set[str]:
        """Return which of ``WATCHED`` have changed since the last call."""
        new_signatures = tuple(signature(self.path / name) for name in WATCHED)
        old_signatures, self._seen = self._seen or (None,) * len(new_signatures), new_signatures
        pairs = zip(WATCHED, old_signatures, new_signatures, strict=True)
        return {name for name, old, new in pairs if old != new}

    def refresh(self) -> ViewedRun:
        """Read new data; the caller holds ``lock``."""
        for lines in (self.metrics, self.timing, self.health):
            lines.update()
        file_signature = signature(self.path / CONFIG)
        if file_signature != self._config or file_signature is None:
            self._config = file_signature
            self._read_config()
        file_signature = signature(self.path / PROVENANCE)
        if file_signature != self._provenance:
            self._provenance = file_signature
            self.starts = [] if file_signature is None else self._read_starts()
        return self

    def _read_starts(self) -> list[dict[str, Any]]:
        try:
            return starts_in(read_regular_file(self.path / PROVENANCE, 0)[0])
        except OSError:
            return []

    def _read_config(self) -> None:
        self.config, self.flat, self.trouble = {}, {}, None
        try:
            version = parse_json(read_regular_file(self.path / MARKER, 0)[0])["format"]
            if version != 1:
                self.trouble = f"it has run format {version}, and this version reads format 1"
                return
            text = read_regular_file(self.path / CONFIG, 0)[0].decode("utf-8")
            config = parse_yaml(text, CONFIG)
            if not isinstance(config, dict):
                raise ValueError("it must be a mapping")
            self.config, self.flat = config, dict(_flatten(config))
        except (OSError, ValueError, LookupError, TypeError, SparringError) as error:
            cause = error.strerror if isinstance(error, OSError) else None
            self.trouble = f"{CONFIG} or {MARKER} cannot be read: {cause or one_line(error)}"

    @property
    def step(self) -> int | None:
        """Number of the last finished step."""
        return self.metrics.steps[-1] if self.metrics.steps else None

    @property
    def steps(self) -> int | None:
        """Number of steps in the configuration."""
        steps = self.config.get("steps")
        return steps if type(steps) is int else None

    @property
    def state(self) -> str:
        """The run's state, such as "training", from its files: see docs/view.md."""
        if not self.path.is_dir():
            return "gone"
        if self.trouble is not None:
            return "unreadable"
        if self._is_training():
            return "training"
        if self.step is None:
            return "empty"
        return "finished" if self.steps is not None and self.step >= self.steps else "stopped"

    def _is_training(self) -> bool:
        """Return whether a process of this machine trains the run, or its metrics are recent."""
        try:
            holder = int(read_regular_file(self.path / HOLDER, 0)[0])
            os.kill(holder, 0)
        except ProcessLookupError:
            metrics = signature(self.path / METRICS)
            is_short = self.steps is None or self.step is None or self.step < self.steps
            return metrics is not None and time.time() - metrics[1] / 1e9 < RECENT and is_short
        except PermissionError:
            return True
        except (OSError, ValueError, OverflowError):
            return False
        return True

    def family(self) -> str:
        """Return a hash that runs share if their configurations differ only in the seed."""
        settings = {
            name: value for name, value in self.flat.items() if name not in ("seed", "threads")
        }
        text = json.dumps(settings, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def notes(self) -> list[str]:
        """Return messages about the folder's state."""
        notes = [] if self.trouble is None else [self.trouble]
        for lines in (self.metrics, self.timing, self.health):
            if lines.damaged:
                notes.append(f"{lines.path.name}: {lines.damaged} damaged lines are left out")
        links = [name for name in SUBFOLDERS if not is_inside(self.path, self.path / name)]
        notes += [f"{name} is a link out of the run folder and is not read" for name in links]
        return notes

    def owns(self, name: str) -> bool:
        """Return whether a subfolder is inside the run folder."""
        return is_inside(self.path, self.path / name)

    def checkpoints(self) -> list[int]:
        """Return the steps that have a checkpoint, in order."""
        return checkpoint.steps(self.path) if self.owns("checkpoints") else []

    def summary(self) -> dict[str, Any]:
        """Return the run's row in the table of runs."""
        state = self.state
        medians = []
        for name in ("games_per_second", "seconds/round"):
            curve = self.timing.curves.get(name)
            rates = [] if curve is None else sorted(v for v in curve.values[-NUM_LATEST:] if v > 0)
            medians.append(rates[len(rates) // 2] if rates else None)
        rate, seconds = medians
        seconds_left = None
        if state == "training" and None not in (self.steps, self.step, seconds):
            seconds_left = (self.steps - self.step) * seconds  # type: ignore[operator]
        newest_points = {name: self.metrics.newest(name) for name in self.metrics.curves}
        rollout = self.config.get("rollout", {})
        games_per_step = rollout.get("games_per_step") if isinstance(rollout, dict) else None
        metrics_signature = signature(self.path / METRICS)
        return {
            "run": self.number,
            "name": self.name,
            "recipe": _text_or_none(self.config.get("name")),
            "seed": self.config.get("seed") if type(self.config.get("seed")) is int else None,
            "family": self.family(),
            "state": state,
            "step": self.step,
            "steps": self.steps,
            "plays": self.step * games_per_step
            if self.step is not None and type(games_per_step) is int
            else None,
            "plays_per_second": rate,
            "seconds_per_step": seconds,
            "seconds_left": seconds_left,
            "started": _text_or_none(self.starts[0].get("date")) if self.starts else None,
            "seconds": self._seconds(),
            "written": None if metrics_signature is None else metrics_signature[1] / 1e9,
            "environments": _environments(self.config),
            "newest": {
                name: {"step": point[0], "value": point[1]}
                for name, point in newest_points.items()
                if point is not None
            },
            "key": sorted(key_figures(newest_points)),
            "events": len(self.health.events),
            "event": self.health.events[-1] if self.health.events else None,
            "notes": self.notes(),
        }

    def _seconds(self) -> float | None:
        if not self.timing.steps:
            return None
        return float(axis("seconds", [self.timing.steps[-1]], self.timing)[0])


class HumanPlays(ViewedRun):
    """The episodes that people played against a run, in a subfolder with the layout of a run.

    Args:
        base: the run that people played against.
    """

    people = True

    def __init__(self, base: ViewedRun) -> None:
        super().__init__(base.number, base.path / PLAYED_FOLDER, base.name)
        self._base = base

    def refresh(self) -> ViewedRun:
        """Read the configuration of the run."""
        with self._base.lock:
            self.config = self._base.refresh().config
        return self

    def owns(self, name: str) -> bool:
        """Return whether a subfolder is inside the run folder."""
        return is_inside(self._base.path, self.path / name)


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _environments(config: Mapping[str, Any]) -> list[str]:
    sections = config.get("environments")
    rows = [row for row in sections if isinstance(row, dict)] if isinstance(sections, list) else []
    return [str(row.get("label") or row.get("name")) for row in rows]


def _flatten(value: Any, name: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        nested = (_flatten(part, f"{name}.{key}" if name else str(key)) for key, part in parts)
        return [pair for pairs in nested for pair in pairs]
    return [(name, value)]


def find_runs(folder: Path, depth: int = DEPTH) -> list[Path]:
    """Return the run folders in a folder, sorted by name; the folder itself if it is one."""
    if (folder / MARKER).is_file():
        return [folder]
    if depth == 0:
        return []
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    folders = (path for path in entries if path.is_dir() and not path.is_symlink())
    return [run for path in folders for run in find_runs(path, depth - 1)]


def unique_name(path: Path, root: Path, used_names: Sequence[str]) -> str:
    """Return a name that no other run has: the path below ``root``, or a longer path."""
    short_name = path.name if path == root else str(path.relative_to(root))
    parent = root if path != root else path.parent
    for name in (short_name, f"{parent.name}/{short_name}"):
        if name not in used_names:
            return name
    return str(path)

"""The run folder: made, opened, locked, and never taken from anybody.

Layout: sparring-run.json (marker), config.yaml (resolved), metrics.jsonl, timing.jsonl, health.jsonl, tensorboard/,
episodes/, checkpoints/, report.html.
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from sparring.config import resolve
from sparring.errors import ConfigError, LockedError, RunError
from sparring.ops.files import TEMPORARY, disk_errors, write_bytes_atomic, write_json_atomic

MARKER, CONFIG, LOCK, HOLDER = "sparring-run.json", "config.yaml", ".lock", ".lock-holder"
FORMAT = 1
FREE = ("steps", "checkpoint", "store", "health", "name", "summary")  # keys that may differ when a run goes on


class RunFolder:
    """A run folder, locked while in use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(str(path / LOCK))

    @classmethod
    def create(cls, path: Path, config_yaml: str, *, overwrite: bool = False) -> RunFolder:
        """Make a new run folder.

        Args:
            path: where; must not exist, or be empty, or be a run folder that may be overwritten.
            config_yaml: the resolved configuration.
            overwrite: delete the run that is there.

        Raises:
            RunError: the folder holds something else, or a run while ``overwrite`` is off.
            LockedError: the run that is there is going on.
        """
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; name a folder with --run.")
        _check_free(path, overwrite)
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        with cls(path):
            _check_free(path, overwrite)  # again, now that nobody else may change it
            with disk_errors(path):
                _clear(path)
            write_json_atomic(path / MARKER, {"format": FORMAT})  # first, so that a kill from here on leaves a folder that is ours
            write_bytes_atomic(path / CONFIG, config_yaml.encode())
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return an existing run folder.

        Raises:
            RunError: it is missing, or no run folder, or of a format this version cannot read.
        """
        if not path.is_dir():
            raise RunError(f"There is no run folder {path}; train one with `sparring train RECIPE --run {path}`.")
        if _is_unbegun(path):
            raise RunError(f"{path} is not a run folder: no run has begun in it. Train one there, without --resume.")
        if not (path / MARKER).is_file():
            raise RunError(f"{path} is not a run folder: it has no {MARKER}. Name a folder that `sparring train` made.")
        if not (path / CONFIG).is_file():
            raise RunError(f"{path} cannot go on: its {CONFIG} is missing. Restore it or start anew with --overwrite.")
        try:
            version = json.loads((path / MARKER).read_bytes())["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path / MARKER} is damaged: {error!r}. Restore it or start anew with --overwrite.") from None
        if version != FORMAT:
            raise RunError(f"{path} has run format {version}; this version reads format {FORMAT}.")
        return cls(path)

    def config(self) -> dict[str, Any]:
        """Return the configuration the run was started with, as a plain mapping.

        Raises:
            RunError: the file is damaged.
        """
        try:
            data = yaml.safe_load((self.path / CONFIG).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise RunError(f"{self.path / CONFIG} cannot be read: {error}.") from None
        if not isinstance(data, dict):
            raise RunError(f"{self.path / CONFIG} is damaged: it must be a mapping.")
        return data

    def check_same_config(self, config: dict[str, Any]) -> None:
        """Check that a run may go on with this configuration; keys that did not exist when it was started count as their defaults.

        Raises:
            RunError: anything differs that would make it another run.
        """
        changed = "; ".join(_differences(_completed(self.config()), config))
        if changed:
            raise RunError(f"{self.path} was started with another configuration: {changed}. Resume without overrides.")

    def __enter__(self) -> RunFolder:
        with disk_errors(self.path):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                message = f"Another process (pid {self._holder()}) works on {self.path}; wait for it or name another folder."
                raise LockedError(message) from None
            try:
                (self.path / HOLDER).write_text(str(os.getpid()))
            except OSError:
                self._lock.release()
                raise
        return self

    def _holder(self) -> str:
        """Return the process id of whoever holds the lock, if it can be known."""
        try:
            return (self.path / HOLDER).read_text() or "unknown"
        except OSError:
            return "unknown"

    def __exit__(self, *error: object) -> None:
        (self.path / HOLDER).unlink(missing_ok=True)
        self._lock.release()


def _is_unbegun(path: Path) -> bool:
    """Return whether a folder holds nothing, or only what a kill leaves while a run is being made there."""
    return all(entry.name in (MARKER, LOCK, HOLDER) or entry.name.startswith(TEMPORARY) for entry in path.iterdir())


def _check_free(path: Path, overwrite: bool) -> None:
    """Check that a new run may be made in a folder.

    Raises:
        RunError: it holds something else, or a run while ``overwrite`` is off.
    """
    if not path.exists() or _is_unbegun(path):
        return
    if not (path / MARKER).is_file():
        raise RunError(f"{path} is not empty and holds no run of ours; name another folder with --run.")
    if not overwrite:
        choices = "go on with --resume, start anew with --overwrite, or name another folder with --run"
        raise RunError(f"{path} already holds a run; {choices}.")


def _clear(path: Path) -> None:
    """Delete everything in a run folder but its lock and its marker, which says that the rest of it may be deleted.

    The configuration goes first: a run that is half deleted must not go on.
    """
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name != CONFIG):
        if entry.name in (LOCK, HOLDER, MARKER):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with the keys that have come since, or as it is where it can no longer be read."""
    try:
        return resolve(config).model_dump(mode="json")
    except ConfigError:
        return config


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys, in dotted form with both values, whose values differ and would make it another run."""
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, ...), new.get(key, ...)
        if before == after or (not prefix and key in FREE):
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{prefix}{key}.")
        else:
            was, now = ("absent" if value is ... else textwrap.shorten(repr(value), 60) for value in (before, after))
            yield f"{prefix}{key} differs ({was}, now {now})"

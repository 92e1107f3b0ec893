"""The run folder: made, opened, locked, and never taken from anybody.

Layout: sparring-run.json (marker), config.yaml (resolved), metrics.jsonl, timing.jsonl, tensorboard/, episodes/,
checkpoints/, report.html.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from sparring.errors import LockedError, RunError
from sparring.ops.files import TEMPORARY, disk_errors, write_bytes_atomic, write_json_atomic

MARKER, CONFIG, LOCK, HOLDER = "sparring-run.json", "config.yaml", ".lock", ".lock-holder"
FORMAT = 1
FREE = ("steps", "checkpoint", "store", "name", "summary")  # keys that may differ when a run goes on


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
        if path.is_dir() and any(not entry.name.startswith(TEMPORARY) for entry in path.iterdir()):
            if not (path / MARKER).is_file():
                raise RunError(f"{path} is not empty and holds no run of ours; name another folder with --run.")
            if not overwrite:
                choices = "go on with --resume, start anew with --overwrite, or name another folder with --run"
                raise RunError(f"{path} already holds a run; {choices}.")
            with cls(path):
                _clear(path)
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
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
        if not (path / MARKER).is_file() or not (path / CONFIG).is_file():
            raise RunError(f"{path} is not a run folder: it has no {MARKER}. Name a folder that `sparring train` made.")
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
        """Check that a run may go on with this configuration.

        Raises:
            RunError: anything differs that would make it another run.
        """
        old = self.config()
        changed = [key for key in sorted(old.keys() | config.keys()) if key not in FREE and old.get(key) != config.get(key)]
        if changed:
            raise RunError(f"{self.path} was started with another configuration: {', '.join(changed)} differ. Resume without overrides.")

    def __enter__(self) -> RunFolder:
        try:
            with disk_errors(self.path):
                self._lock.acquire(timeout=0)
        except Timeout:
            holder = self.path / HOLDER
            who = holder.read_text() if holder.is_file() else "unknown"
            raise LockedError(f"Another process (pid {who}) works on {self.path}; wait for it or name another folder.") from None
        (self.path / HOLDER).write_text(str(os.getpid()))
        return self

    def __exit__(self, *error: object) -> None:
        (self.path / HOLDER).unlink(missing_ok=True)
        self._lock.release()


def _clear(path: Path) -> None:
    """Delete everything in a run folder but its lock."""
    for entry in path.iterdir():
        if entry.name in (LOCK, HOLDER):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

"""Sink: trackio."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from collections.abc import Mapping
from typing import Any

from sparring.run.sinks.base import Journal, RunStart

PACKAGE = "trackio"


class TrackioRun:
    """A run in trackio's database on this machine; ``write`` returns when the step is on disk."""

    def __init__(self, storage: Any, start: RunStart, project: str, run: str) -> None:
        self._storage, self._project = storage, project
        self._names = {"run": f"{start.title}-{run}", "run_id": run}
        self._config: dict[str, Any] | None = dict(start.config)
        self._forget(run, start.step)

    def _forget(self, run: str, step: int) -> None:
        path = self._storage.init_db(self._project)
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as database, database:
            database.execute("DELETE FROM metrics WHERE run_id = ? AND step > ?", (run, step))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Add the figures of a step; the first call adds the configuration too."""
        self._storage.bulk_log(
            self._project,
            metrics_list=[dict(figures)],
            steps=[step],
            config=self._config,
            **self._names,
        )
        self._config = None

    def close(self) -> None:
        """Do nothing, as everything is written."""


def trackio(start: RunStart, *, project: str = "sparring") -> TrackioRun:
    """Keep the figures in trackio's database on this machine.

    When to use: to compare runs in trackio's page, ``trackio show --project sparring``. Needs the
    extra ``trackio``. The database is where trackio keeps it: TRACKIO_DIR, or the folder trackio of
    the cache of Hugging Face.
    Pitfalls: nothing is sent to a Space, whatever trackio's variables say; ``trackio.sync`` does it
    later. A resumed run is the same run of trackio, by the id in RUN/sinks/trackio.jsonl,
    and the steps that are played again are removed before. Figures go to trackio's storage, not
    by ``trackio.init``, which asks Hugging Face who is logged in and keeps rows back in memory.
    Reference: trackio, github.com/gradio-app/trackio.
    Verified by: tests/run/sinks/test_trackio.py, and with the package itself by `make sinks-test`.

    Args:
        project: name of the project, and so of the database's file.

    Raises:
        ConfigError: the package is missing.
    """
    storage = importlib.import_module(f"{PACKAGE}.sqlite_storage").SQLiteStorage
    storage.validate_project_name(project)
    return TrackioRun(storage, start, project, Journal(start.folder, PACKAGE).run)

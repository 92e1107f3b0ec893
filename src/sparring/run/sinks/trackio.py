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
        self._delete_later_steps(run, start.step)

    def _delete_later_steps(self, run_id: str, step: int) -> None:
        path = self._storage.init_db(self._project)
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as database, database:
            database.execute("DELETE FROM metrics WHERE run_id = ? AND step > ?", (run_id, step))

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
        """Do nothing: every step is already on disk."""


def trackio(start: RunStart, *, project: str = "sparring") -> TrackioRun:
    """Keep the figures in trackio's database on this machine.

    When to use: to compare runs in trackio's page, ``trackio show --project sparring``. Needs the
    extra ``trackio``. The database is in the folder TRACKIO_DIR, or in the folder trackio of
    Hugging Face's cache.
    Pitfalls: variables of trackio have no effect, so no metric goes to a Space; run
    ``trackio.sync`` for that. A resumed run continues the same trackio run, by the id in
    RUN/sinks/trackio.jsonl, and first deletes the steps after its checkpoint. This sink writes to
    trackio's storage, because ``trackio.init`` contacts Hugging Face and buffers rows in memory.
    Reference: trackio, github.com/gradio-app/trackio.
    Verified by: tests/run/sinks/test_trackio.py, and with the package itself by `make sinks-test`.

    Args:
        project: name of the project and of its database file.

    Raises:
        ConfigError: the package is missing.
    """
    storage = importlib.import_module(f"{PACKAGE}.sqlite_storage").SQLiteStorage
    storage.validate_project_name(project)
    return TrackioRun(storage, start, project, Journal(start.folder, PACKAGE).run_id)

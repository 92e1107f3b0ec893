"""The viewer's runs, their episode index, and a version that grows with each change.

Requests check the run folders for changes, at most twice a second. A thread builds the whole index
at the start, and later updates it only while somebody views episodes. While a run is training,
the thread uses only a small share of a core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparring.view.episode_index import CREDIT, EPISODES, EpisodeIndex
from sparring.view.http_requests import RequestError
from sparring.view.viewed_run import (
    BY_PEOPLE,
    PEOPLE,
    HumanPlays,
    ViewedRun,
    find_runs,
    unique_name,
)

CHECK_EVERY = 0.5  # seconds between two checks of known runs
SEARCH_EVERY = 5.0  # seconds between two searches for new runs
USE_SECONDS = 10.0  # the index is updated until this many seconds after the last search
INDEX_WAIT = 0.3  # seconds that a search waits for the update of the index
OF_PEOPLE = "-people"
LIVE_PARTS = 1  # number of stored steps indexed at once while a run is training
LIVE_SHARE = 0.007  # share of a core for the index while a run is training


class RunWatcher:
    """The runs below some folders, and the index of their episodes.

    Args:
        roots: run folders, or folders that contain some.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = [root.absolute() for root in roots]
        self.runs: list[ViewedRun] = []
        self.index = EpisodeIndex()
        self.version = 1
        self._lock = threading.Lock()
        self._last_check = self._last_search = -SEARCH_EVERY
        self._unchecked_runs: set[int] = set()  # runs whose stored steps must be checked
        self._runs_being_indexed: set[int] = set()  # runs whose stored steps are being indexed
        self._wake_event = threading.Event()
        self._stop_event = threading.Event()
        self._last_use = -USE_SECONDS
        self._thread = threading.Thread(target=self._build_index, name="index", daemon=True)
        self.idle = threading.Event()  # set while the index is complete
        self.idle.set()
        self.check_runs()

    def start(self) -> None:
        """Start to build the index."""
        self._thread.start()

    def close(self) -> None:
        """End the thread that builds the index, after its current parts."""
        self._stop_event.set()
        self._wake_event.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self.index.close()

    def check_runs(self) -> None:
        """Look for changes in the run folders, at most every ``CHECK_EVERY`` seconds."""
        with self._lock:
            now = time.monotonic()
            if now - self._last_check < CHECK_EVERY:
                return
            self._last_check = now
            if now - self._last_search >= SEARCH_EVERY:
                self._last_search = now
                self._search()
            for run in self.runs:
                changes = run.changes()
                if changes:
                    self._bump_version({run.number})
                if changes & {EPISODES, CREDIT, BY_PEOPLE}:
                    self._unchecked_runs.add(run.number)
            if self._unchecked_runs:
                self.idle.clear()
                self._wake_event.set()

    def _search(self) -> None:
        paths = {run.path for run in self.runs}
        for root in self.roots:
            for path in find_runs(root):
                if path not in paths:
                    paths.add(path)
                    name = unique_name(path, root, [run.name for run in self.runs])
                    self.runs.append(ViewedRun(len(self.runs), path, name))
                    self._bump_version({len(self.runs) - 1})

    def _bump_version(self, runs: set[int]) -> None:
        """Count a change; the caller holds the lock."""
        self.version += 1
        for number in runs:
            self.runs[number].changed = self.version

    def _build_index(self) -> None:
        is_built = False  # whether the first full index is built
        while not self._stop_event.is_set():
            self._wake_event.wait(timeout=1.0)
            self._wake_event.clear()
            with self._lock:
                due_runs = set(self._unchecked_runs) if self._is_in_use() or not is_built else set()
                self._unchecked_runs -= due_runs
                self._runs_being_indexed = due_runs
            if not due_runs:
                continue
            is_live = is_built and any(self.runs[number].state == "training" for number in due_runs)
            start_time = time.thread_time()
            if not self._update(due_runs, LIVE_PARTS if is_live else None):
                with self._lock:
                    self._unchecked_runs |= due_runs
                    self._wake_event.set()
            is_built = True
            if is_live:
                self._stop_event.wait((time.thread_time() - start_time) / LIVE_SHARE)

    def _update(self, runs: set[int], limit: int | None) -> bool:
        """Index stored steps of runs; return whether all are indexed."""
        folders, is_done = self.folders(runs), True
        with suppress(OSError):  # a folder has just been deleted; the next check handles it
            is_done = self.index.update(folders, self._on_indexed, limit)
        with self._lock:
            self._runs_being_indexed = set()
            if is_done and not self._unchecked_runs:
                self.idle.set()
            self._bump_version(runs)
        return is_done

    def indexing(self, run: int) -> str | None:
        """Return "now" or "later" if stored steps of a run are not indexed yet, else None."""
        if run in self._runs_being_indexed:
            return "now"
        return "later" if run in self._unchecked_runs else None

    def folders(self, runs: Iterable[int]) -> dict[int, Path]:
        """Return the folders of runs and of people's episodes, by their numbers in the index."""
        folders = {number: self.runs[number].path for number in runs}
        people = {number + PEOPLE: HumanPlays(self.runs[number]) for number in folders}
        return folders | {number: plays.path for number, plays in people.items() if plays.owns("")}

    def _is_in_use(self) -> bool:
        return time.monotonic() - self._last_use < USE_SECONDS

    def note_use(self) -> None:
        """Record a use of the index, and wait a moment for its update."""
        self._last_use = time.monotonic()
        if self._unchecked_runs:
            self._wake_event.set()
            self.idle.wait(INDEX_WAIT)

    def _on_indexed(self, runs: set[int]) -> None:
        with self._lock:
            self._bump_version({number % PEOPLE for number in runs})

    def run(self, text: str) -> ViewedRun:
        """Return the run with a number; ``N-people`` means people's episodes against it.

        Raises:
            RequestError: the run does not exist.
        """
        if text.endswith(OF_PEOPLE):
            return HumanPlays(self.run(text.removesuffix(OF_PEOPLE)))
        if text.isascii() and text.isdigit() and len(text) < 9 and int(text) < len(self.runs):
            return self.runs[int(text)]
        raise RequestError(404, "there is no such run")

    def runs_of(self, text: str) -> list[ViewedRun]:
        """Return the runs of comma-separated numbers; all runs for "".

        Raises:
            RequestError: a run does not exist.
        """
        return [self.run(part) for part in text.split(",")] if text else list(self.runs)

    def indexed(self) -> dict[str, int]:
        """Return the numbers of indexed and stored steps."""
        index = self.index
        return {
            "parts": len(index.signatures),
            "of": sum(index.num_stored_steps.values()),
            "rows": sum(list(index.num_episodes.values())),
        }

    def changes(self, since: int) -> dict[str, Any] | None:
        """Return the runs that changed since a version; None without changes."""
        self.check_runs()
        if since >= self.version:
            return None
        counts = self.indexed()
        return {
            "version": self.version,
            "runs": [run.number for run in self.runs if run.changed > since],
            "indexing": None
            if self.idle.is_set() or not self._is_in_use()
            else {"parts": counts["parts"], "of": counts["of"]},
        }

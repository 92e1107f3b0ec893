"""What the viewer knows: its runs, the index, and a version that grows with each change.

Run folders are looked at when somebody asks, at most twice a second. A thread of its own builds the
index: at the start whole, later only while somebody looks at episodes, and beside a training with a
small share of its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparring.view.http_requests import Refused
from sparring.view.index import CREDIT, EPISODES, EpisodeIndex
from sparring.view.runs import BY_PEOPLE, PEOPLE, OfPeople, Run, found_in, named

LOOK_EVERY = 0.5  # seconds between two looks at known runs
SEARCH_EVERY = 5.0  # seconds between two searches for new runs
WANTED = 10.0  # seconds after a look at episodes in which the index is kept up
PATIENCE = 0.3  # seconds that such a look waits for it
OF_PEOPLE = "-people"
LIVE_PARTS = 1  # stored steps that are indexed at once beside a training
LIVE_SHARE = 0.007  # of a core, for the index beside a training


class Watch:
    """The runs below some folders, and the index of their episodes.

    Args:
        roots: run folders, or folders that hold some.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = [root.absolute() for root in roots]
        self.runs: list[Run] = []
        self.index = EpisodeIndex()
        self.version = 1
        self._lock = threading.Lock()
        self._looked = self._searched = -SEARCH_EVERY
        self._due: set[int] = set()  # runs whose stored steps are to be looked at
        self._current: set[int] = set()  # runs whose stored steps are being indexed
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._asked = -WANTED
        self._thread = threading.Thread(target=self._indexing, name="index", daemon=True)
        self.idle = threading.Event()  # set while nothing is to be indexed
        self.idle.set()
        self.look()

    def start(self) -> None:
        """Begin to build the index."""
        self._thread.start()

    def close(self) -> None:
        """End the thread that builds the index, after the parts at hand."""
        self._ending.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self.index.close()

    def look(self) -> None:
        """See what has changed in the run folders, unless that was seen just now."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < LOOK_EVERY:
                return
            self._looked = now
            if now - self._searched >= SEARCH_EVERY:
                self._searched = now
                self._search()
            for run in self.runs:
                changes = run.changes()
                if changes:
                    self._raise({run.number})
                if changes & {EPISODES, CREDIT, BY_PEOPLE}:
                    self._due.add(run.number)
            if self._due:
                self.idle.clear()
                self._wake.set()

    def _search(self) -> None:
        known = {run.path for run in self.runs}
        for root in self.roots:
            for path in found_in(root):
                if path not in known:
                    known.add(path)
                    name = named(path, root, [run.name for run in self.runs])
                    self.runs.append(Run(len(self.runs), path, name))
                    self._raise({len(self.runs) - 1})

    def _raise(self, runs: set[int]) -> None:
        """Count a change; the caller holds the lock."""
        self.version += 1
        for number in runs:
            self.runs[number].changed = self.version

    def _indexing(self) -> None:
        began = False  # whether all that was there at the start is indexed
        while not self._ending.is_set():
            self._wake.wait(timeout=1.0)
            self._wake.clear()
            with self._lock:
                due = set(self._due) if self._is_wanted() or not began else set()
                self._due -= due
                self._current = due
            if not due:
                continue
            live = began and any(self.runs[number].state == "training" for number in due)
            spent = time.thread_time()
            if not self._update(due, LIVE_PARTS if live else None):
                with self._lock:
                    self._due |= due
                    self._wake.set()
            began = True
            if live:
                self._ending.wait((time.thread_time() - spent) / LIVE_SHARE)

    def _update(self, due: set[int], most: int | None) -> bool:
        """Index stored steps of runs; return whether all of them are."""
        folders, whole = self.folders(due), True
        with suppress(OSError):  # a folder that goes is seen again at the next look
            whole = self.index.update(folders, self._indexed, most)
        with self._lock:
            self._current = set()
            if whole and not self._due:
                self.idle.set()
            self._raise(due)
        return whole

    def indexing(self, run: int) -> str | None:
        """Return whether stored steps of a run come into the index "now" or "later"; None: none."""
        if run in self._current:
            return "now"
        return "later" if run in self._due else None

    def folders(self, runs: Iterable[int]) -> dict[int, Path]:
        """Return where the plays of runs lie, by their numbers in the index."""
        found = {number: self.runs[number].path for number in runs}
        people = {number + PEOPLE: OfPeople(self.runs[number]) for number in found}
        return found | {number: own.path for number, own in people.items() if own.keeps("")}

    def _is_wanted(self) -> bool:
        return time.monotonic() - self._asked < WANTED

    def want(self) -> None:
        """Take note that somebody looks at episodes, and give the index a moment to catch up."""
        self._asked = time.monotonic()
        if self._due:
            self._wake.set()
            self.idle.wait(PATIENCE)

    def _indexed(self, runs: set[int]) -> None:
        with self._lock:
            self._raise({number % PEOPLE for number in runs})

    def run(self, text: str) -> Run:
        """Return the run of a number, or after ``N-people`` the plays of people against it.

        Raises:
            Refused: there is none.
        """
        if text.endswith(OF_PEOPLE):
            return OfPeople(self.run(text.removesuffix(OF_PEOPLE)))
        if text.isascii() and text.isdigit() and len(text) < 9 and int(text) < len(self.runs):
            return self.runs[int(text)]
        raise Refused(404, "there is no such run")

    def several(self, text: str) -> list[Run]:
        """Return the runs of numbers with commas between them; all of them for none.

        Raises:
            Refused: there is no such run.
        """
        return [self.run(part) for part in text.split(",")] if text else list(self.runs)

    def indexed(self) -> dict[str, int]:
        """Return how much of the stored steps is indexed."""
        index = self.index
        return {
            "parts": len(index.known),
            "of": sum(index.wanted.values()),
            "rows": sum(list(index.rows.values())),
        }

    def changes(self, since: int) -> dict[str, Any] | None:
        """Return which runs have changed since a version; None where nothing has."""
        self.look()
        if since >= self.version:
            return None
        whole = self.indexed()
        return {
            "version": self.version,
            "runs": [run.number for run in self.runs if run.changed > since],
            "indexing": None
            if self.idle.is_set() or not self._is_wanted()
            else {"parts": whole["parts"], "of": whole["of"]},
        }

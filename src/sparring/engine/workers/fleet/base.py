"""What a fleet is: workers that are started, sent bytes, heard and ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol


class WorkerMessage(NamedTuple):
    """What came from a worker: a message, or None: it is gone."""

    worker: int
    message: bytes | None


class Fleet(Protocol):
    """Workers by number. No method but ``poll`` and ``close`` waits for a worker.

    ``poll`` is called by one thread, the others by any thread, also while ``poll`` waits.

    Attributes:
        workers: how many there are to be.
        apart: whether workers work while nobody looks. Where they do not, ``poll`` does their work,
            and is called by the thread that wants it.
        elastic: whether a worker that is started may wait for a machine as long as it likes.
    """

    workers: int
    apart: bool
    elastic: bool

    def now(self) -> float:
        """Return the seconds on the clock that waiting for workers is measured by."""

    def start(self, worker: int) -> None:
        """Start a worker; its first message says that it is ready."""

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message. One that is gone says so by ``poll`` alone.

        Args:
            worker: who has joined, and has answered what it was sent before.
            message: a task.
            files: by SHA-256, the files of weights that the task names and the worker does not
                hold. They are there until the task is answered. A fleet whose workers cannot read
                them sends their contents along.
        """

    def tell(self, message: bytes) -> None:
        """Tell all workers that are there of newer weights, as files that they can read.

        One that plays takes them on its way, if the fleet can reach it there. Where it cannot this
        does nothing: new weights come with the next task.
        """

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return what has come, waiting so long for the first; empty if nothing has."""

    def end(self, worker: int) -> None:
        """End a worker at once, whatever it does. Nothing more is heard of it."""

    def close(self) -> None:
        """End all workers."""

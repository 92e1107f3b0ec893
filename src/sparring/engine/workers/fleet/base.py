"""The interface of a fleet, which starts, feeds, listens to and ends workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol


class WorkerMessage(NamedTuple):
    """A message from a worker; ``message`` None means that the worker has ended."""

    worker: int
    message: bytes | None


class Fleet(Protocol):
    """Workers with numbers; only ``poll`` and ``close`` wait for a worker.

    One thread calls ``poll``; any thread calls the other methods, also while ``poll`` waits.

    Attributes:
        workers: number of workers.
        has_processes: whether workers run in other processes. If not, ``poll`` does their work.
        elastic: whether a started worker may wait for a machine without limit.
    """

    workers: int
    has_processes: bool
    elastic: bool

    def now(self) -> float:
        """Return the time in seconds, by the clock that measures timeouts."""

    def start(self, worker: int) -> None:
        """Start a worker, whose first message says that it is ready."""

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a message to a worker; only ``poll`` reports that a worker has ended.

        Args:
            worker: a worker that has joined and has answered its last message.
            message: a task.
            files: SHA-256 -> path of each weights file that the task names and the worker lacks.
                The files exist until the task is answered. If workers cannot read them, the fleet
                sends their contents.
        """

    def tell(self, message: bytes) -> None:
        """Announce newer weights to all workers, by the paths of files that workers can read.

        A playing worker loads them at once if the fleet can reach it; if not, with its next task.
        """

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Wait at most this long for a message, and return all messages that have arrived."""

    def end(self, worker: int) -> None:
        """End a worker at once; ``poll`` returns none of its later messages."""

    def close(self) -> None:
        """End all workers."""

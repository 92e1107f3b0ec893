"""No workers: the training process plays units itself, when it waits for them.

With ``scale.lag`` it plays with older weights than it learns with, so its players are models of
their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from sparring.engine.fleet.base import Heard
from sparring.engine.worker import Worker, ready


class Here:
    """One worker in this process.

    Args:
        config: of the run, as values of JSON.
        worker: that plays; None: it is made.
    """

    workers, apart, elastic = 1, False, False

    def __init__(self, config: Mapping[str, Any], worker: Worker | None = None) -> None:
        self._worker = worker or Worker(config, threads=config["threads"])
        self._heard: deque[Heard] = deque()
        self._wanted: deque[tuple[int, bytes]] = deque()

    def now(self) -> float:
        """Return the seconds on its clock; see ``Fleet``."""
        return monotonic()

    def start(self, worker: int) -> None:
        """Let the worker be ready; see ``Fleet``."""
        self._heard.append(Heard(worker, ready()))

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Keep a message until ``poll``; see ``Fleet``."""
        self._wanted.append((worker, message))

    def tell(self, message: bytes) -> None:
        """Do nothing: nobody plays while it is told; see ``Fleet``."""

    def poll(self, seconds: float) -> list[Heard]:
        """Return what has come, or play what was sent; see ``Fleet``.

        Raises:
            SparringError: as playing does.
        """
        if not self._heard and self._wanted:
            worker, message = self._wanted.popleft()
            self._heard.append(Heard(worker, self._worker.answer(message, {})))
        found = list(self._heard)
        self._heard.clear()
        return found

    def end(self, worker: int) -> None:
        """Forget what the worker was sent; see ``Fleet``."""
        self._wanted.clear()
        self._heard.clear()

    def close(self) -> None:
        """Forget everything; see ``Fleet``."""
        self.end(0)

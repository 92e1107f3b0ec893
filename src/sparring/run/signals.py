"""SIGINT and SIGTERM as a wish to stop: the loop finishes its step, saves and leaves."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class GracefulStop:
    """Context in which the first signal sets ``requested`` and the second interrupts at once.

    Outside the main thread, where Python allows no handlers, it changes nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> GracefulStop:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        log.warning(
            "Stopping: the step under way is finished and saved first. A second %s stops at once; "
            "the run then goes on from its last checkpoint.",
            signal.Signals(number).name,
        )

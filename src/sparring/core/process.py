"""What concerns the process itself: signals, the cycle collector, and the GPUs it sees."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from sparring.core.errors import ConfigError

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


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the cycle collector from walking over every record again and again while more are made.

    Reference counting goes on as always; the collector runs again afterwards if it was on.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def settled_heap() -> Iterator[None]:
    """Leave what is there already out of the cycle collector's walks.

    Libraries and models, a million objects that stay.

    A full walk over them takes a third of a second, every ten steps or so of a small run. They are
    given back at the end, unless somebody else had set objects aside before.
    """
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


VARIABLE = "CUDA_VISIBLE_DEVICES"  # names the GPUs that CUDA shows a process, in order


def seeing(gpus: Sequence[int], key: str) -> dict[str, str]:
    """Return the variable of a process that is to see some of the GPUs that this one sees.

    Args:
        gpus: their numbers here.
        key: of the configuration that names them, for the error.

    Raises:
        ConfigError: this process does not see one of them.
    """
    return {VARIABLE: ",".join(_name(gpu, key) for gpu in gpus)}


def _name(gpu: int, key: str) -> str:
    """Return the name of one of the GPUs that this process sees, which may not be all."""
    seen = os.environ.get(VARIABLE)
    if seen is None:
        return str(gpu)
    names = [name.strip() for name in seen.split(",") if name.strip()]
    if gpu >= len(names):
        raise ConfigError(
            f"{key} names GPU {gpu}, and {VARIABLE}={seen} leaves {len(names)}, "
            "which are counted from 0. Write fewer GPUs, or unset that variable."
        )
    return names[gpu]

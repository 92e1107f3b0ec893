"""Signal handling, garbage collection and visible GPUs of this process."""

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
    """A context in which the first signal sets ``requested`` and the second signal interrupts.

    Outside the main thread, where Python allows no handlers, the context does nothing.
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
            "Stopping after the current step is finished and saved. A second %s stops at once; "
            "the run then resumes from its last checkpoint.",
            signal.Signals(number).name,
        )


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector while many records are made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def settled_heap() -> Iterator[None]:
    """Freeze existing objects so that the garbage collector skips them.

    Libraries and models have about a million objects. If they were not frozen, a full collection
    would take a third of a second, about every ten steps of a small run. The outermost context
    unfreezes them.
    """
    is_outermost = gc.get_freeze_count() == 0
    if is_outermost:
        gc.freeze()
    try:
        yield
    finally:
        if is_outermost:
            gc.unfreeze()


GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"  # the GPUs that a process can use, in order


def gpu_variables(gpus: Sequence[int], key: str) -> dict[str, str]:
    """Return the environment variable that gives a process some of this process's GPUs.

    Args:
        gpus: numbers of the GPUs in this process.
        key: configuration key of the GPUs, for the error.

    Raises:
        ConfigError: this process cannot use one of the GPUs.
    """
    return {GPU_VARIABLE: ",".join(_gpu_name(gpu, key) for gpu in gpus)}


def _gpu_name(gpu: int, key: str) -> str:
    visible = os.environ.get(GPU_VARIABLE)
    if visible is None:
        return str(gpu)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if gpu >= len(names):
        raise ConfigError(
            f"{key} names GPU {gpu}, but {GPU_VARIABLE}={visible} has only {len(names)} GPUs, "
            f"counted from 0. Write smaller numbers, or unset {GPU_VARIABLE}."
        )
    return names[gpu]

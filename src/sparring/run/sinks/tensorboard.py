"""Sink: TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from sparring.core.files import disk_errors
from sparring.run.sinks.base import RunStart


class TensorboardEvents:
    """An event file in RUN/tensorboard."""

    def __init__(self, folder: Path, step: int) -> None:
        self.folder = folder / "tensorboard"
        with disk_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            self._events = EventFileWriter(str(self.folder))
        start = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=time.time(), step=step + 1, session_log=start))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Append the figures of a step."""
        values = [Summary.Value(tag=key, simple_value=value) for key, value in figures.items()]
        self._add(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def _add(self, event: Event) -> None:
        """Append an event and flush it, so that a kill loses no event."""
        with disk_errors(self.folder):
            self._events.add_event(event)
            self._events.flush()

    def close(self) -> None:
        """Flush and close the file."""
        with disk_errors(self.folder):
            self._events.close()


def tensorboard(start: RunStart) -> TensorboardEvents:
    """Write curves for TensorBoard into RUN/tensorboard; this is the default sink.

    ``tensorboard --logdir runs`` shows them. A resumed run tells TensorBoard to drop the
    steps that are played again.

    Reference: Abadi et al., 2016, TensorFlow (arXiv:1603.04467).
    Verified by: tests/run/sinks/test_tensorboard.py.
    """
    return TensorboardEvents(start.folder, start.step)

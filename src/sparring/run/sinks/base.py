"""The interface of sinks (such as TensorBoard), which receive the metrics of every step.

``logging.sinks`` in the configuration lists them. A sink writes its own files and changes nothing
else of the run. If a sink fails, the run continues (``run/events.py``).

A plug-in may declare PACKAGE: the package that it needs, also the name of Sparring's extra.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.files import disk_errors, parse_json


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStart:
    """The start or resumption of a run, as a sink receives it.

    Args:
        folder: folder of the run.
        name: name of the recipe.
        seed: seed of the run.
        step: number of finished steps. Metrics of later steps may be sent a second time.
        config: the whole configuration, as values of JSON.
    """

    folder: Path
    name: str = "run"
    seed: int = 0
    step: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The run's name in a list of runs."""
        return f"{self.name}-seed{self.seed}"


class Sink(Protocol):
    """Receives the metrics of a run. If a method raises, the run counts the error and continues."""

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a step: metrics and timing, finite numbers by name."""

    def close(self) -> None:
        """Write buffered metrics; this is the last call."""


def check_output(sink: BoundPlugin, output: Any, start: RunStart) -> None:
    """Check that a plug-in has returned a sink.

    Raises:
        PluginError: the plug-in returned something else.
    """
    gaps = [name for name in ("write", "close") if not callable(getattr(output, name, None))]
    if gaps:
        raise PluginError(
            f"The {sink} must return a sink with the methods write(step, figures) and close(); "
            f"its result has no {gaps[0]}."
        )


class Journal:
    """Records in RUN/sinks/NAME.jsonl the steps that a sink has received; a kill loses no step.

    Attributes:
        run_id: id of the run in the sink's library, made at the first start.
        last_step: the newest recorded step; 0 at the beginning.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / "sinks" / f"{name}.jsonl"
        self.run_id, self.last_step = "", 0
        for line in self._lines():
            self.run_id = str(line.get("run", self.run_id))
            step = line.get("step", 0)
            self.last_step = max(self.last_step, step if type(step) is int else 0)
        if not self.run_id:
            self.run_id = uuid.uuid4().hex[:12]
            self._append({"run": self.run_id})

    def note(self, step: int) -> None:
        """Record that the sink has received a step."""
        self.last_step = max(self.last_step, step)
        self._append({"step": step})

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line; first complete a half-written last line with a newline."""
        with disk_errors(self.path):
            self.path.parent.mkdir(exist_ok=True)
            with open(self.path, "a+b") as stream:
                is_intact = stream.tell() == 0 or self.path.read_bytes().endswith(b"\n")
                stream.write(f"{'' if is_intact else chr(10)}{json.dumps(line)}\n".encode())

    def _lines(self) -> list[dict[str, Any]]:
        lines = []
        text = self.path.read_text("utf-8", errors="replace") if self.path.is_file() else ""
        for line in text.splitlines():
            try:
                value = parse_json(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                lines.append(value)
        return lines

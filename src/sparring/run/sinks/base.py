"""What a sink is told, what it can do, and what it remembers of a run over kills.

A sink of the configuration (``logging.sinks``) is given the figures of every step. It is no part of
a run: what it does changes no weight and no file of the run but its own, and a run goes on without
it (``run/events.py``).

A plug-in may declare PACKAGE: the package that it imports when it is used, and the extra of
Sparring that brings it.
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
class Start:
    """What a sink is told where a run starts or goes on.

    Args:
        folder: of the run.
        name: of the recipe.
        seed: of the run.
        step: steps done. Those of later steps are played again, and their figures come again.
        config: the whole configuration, as JSON holds it.
    """

    folder: Path
    name: str = "run"
    seed: int = 0
    step: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the run is called where several are listed."""
        return f"{self.name}-seed{self.seed}"


class Sink(Protocol):
    """What a sink can do. Whatever it raises is counted, and the run goes on."""

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Take the figures of a step: metrics and timing, finite numbers by name."""

    def close(self) -> None:
        """Write what is still in memory; nothing comes after it."""


def check_output(sink: BoundPlugin, given: Any, start: Start) -> None:
    """Check that a plug-in has given a sink.

    Raises:
        PluginError: it gave something else.
    """
    missing = [name for name in ("write", "close") if not callable(getattr(given, name, None))]
    if missing:
        raise PluginError(
            f"The {sink} must return a sink, with the methods write(step, figures) and close(); "
            f"what it returned has no {missing[0]}."
        )


class Journal:
    """What a sink remembers of a run: RUN/sinks/NAME.jsonl, a line at its start and per step.

    A torn last line is as if it had not been written.

    Attributes:
        run: what the run is called in the sink's library, made at the first start.
        last: the newest step that was noted; 0 without any.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / "sinks" / f"{name}.jsonl"
        self.run, self.last = "", 0
        for line in self._lines():
            self.run = str(line.get("run", self.run))
            step = line.get("step", 0)
            self.last = max(self.last, step if type(step) is int else 0)
        if not self.run:
            self.run = uuid.uuid4().hex[:12]
            self._append({"run": self.run})

    def note(self, step: int) -> None:
        """Note that the sink has the figures of a step."""
        self.last = max(self.last, step)
        self._append({"step": step})

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line, which begins anew where the one before was torn."""
        with disk_errors(self.path):
            self.path.parent.mkdir(exist_ok=True)
            with open(self.path, "a+b") as stream:
                whole = stream.tell() == 0 or self.path.read_bytes().endswith(b"\n")
                stream.write(f"{'' if whole else chr(10)}{json.dumps(line)}\n".encode())

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        text = self.path.read_text("utf-8", errors="replace") if self.path.is_file() else ""
        for line in text.splitlines():
            try:
                value = parse_json(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found

"""The progress line: step, rate, time left, and the figures one looks at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sparring.config import RunConfig
from sparring.run.loop import StepReport

PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


class Watcher:
    """Called after every step; draws a bar on a terminal and writes plain lines elsewhere."""

    def __init__(self, config: RunConfig, path: Path, *, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._last_line = 0.0
        self._rate = 0.0
        self._shown: dict[str, float] = {}
        games = config.rollout.games_per_step
        self._console.print(f"{config.name}: {config.steps} steps of {games} games, run folder {path}", highlight=False)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if self._console.is_terminal:
            columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("left"))
            self._progress = Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[figures]}"), console=self._console)
            self._task = self._progress.add_task("train", total=config.steps, figures="")

    def __enter__(self) -> Watcher:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, report: StepReport) -> None:
        """Show a step."""
        for note in report.notes:
            self._console.print(f"note: {note}", highlight=False, markup=False)
        for warning in report.warnings:
            self._console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)
        share = 1.0 if self._rate == 0.0 else 0.1
        self._rate += share * (1.0 / max(report.seconds, 1e-9) - self._rate)
        self._shown.update({name: value for name, value in report.metrics.items() if is_key_figure(name)})
        measured = any(name.startswith(("nash_conv/", "match/")) for name in report.metrics)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=report.step, figures=self._figures(report.games))
        elif measured or report.step == report.steps or time.monotonic() - self._last_line >= PLAIN_EVERY:
            self._last_line = time.monotonic()
            left = (report.steps - report.step) / max(self._rate, 1e-9)
            line = f"step {report.step}/{report.steps}  {left:.0f} s left  {self._figures(report.games)}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _figures(self, games: int) -> str:
        """Return the rate and the key figures as text."""
        parts = [f"{self._rate * games:.0f} games/s"]
        parts += [f"{short_name(name)} {value:.3f}" for name, value in sorted(self._shown.items(), reverse=True)]
        return "  ".join(parts)


def is_key_figure(name: str) -> bool:
    """Return whether a metric belongs on the progress line."""
    return (
        name.startswith("nash_conv/") or name == "legal_rate" or (name.startswith("match/") and name.endswith(("/win_or_draw", "/success")))
    )


def short_name(name: str) -> str:
    """Return a metric's name as the progress line shows it."""
    parts: list[Any] = name.split("/")
    if parts[0] == "match":
        return f"{parts[1]} success" if parts[4] == "success" else f"{parts[1]} {parts[3]} vs {parts[2]} win-or-draw"
    return {"nash_conv": "NashConv", "legal_rate": "legal"}.get(parts[0], name) + (f" {parts[1]}" if len(parts) > 1 else "")

"""The progress line of a training run: step, rate, remaining time and key metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from sparring.config import RunConfig
from sparring.config.checks import LIVE, measured_weights
from sparring.core.foreign_text import escape_controls
from sparring.environments.catalogue import configured_game
from sparring.measure.references import references_of
from sparring.report.terminal import PlainConsole
from sparring.report.worker_status import format_status
from sparring.run.evaluation import weights_mark
from sparring.run.loop import StepReport
from sparring.run.warmup import WarmupReport

LINE_SECONDS = 10.0  # seconds between lines without a terminal
MIN_BAR_WIDTH = 110  # least columns of a terminal for a progress bar


class ProgressLine:
    """A callback after every step that draws a bar on a terminal and writes lines elsewhere."""

    def __init__(self, config: RunConfig, path: Path, *, stream: TextIO) -> None:
        self._console = PlainConsole(file=stream)
        self._last_line = 0.0
        self._rate = 0.0
        self._work_start = self._last_work_line = 0.0  # times of work between steps
        self._latest_figures: dict[str, tuple[float, int]] = {}  # key metrics: (value, step)
        self._games = {game.display_name: game for game in config.environments}
        self._printed_references: set[str] = set()
        games = config.rollout.games_per_step
        self._console.print(
            f"{config.name}: {config.steps} steps of {games} games, run folder {path}"
        )
        self._weights = measured_weights(config)
        if self._weights != LIVE:
            self._console.print(
                f"NashConv and matches measure the {self._weights}, other figures the {LIVE}",
                soft_wrap=True,
            )
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if self._console.is_terminal:
            fixed_column = Column(no_wrap=True)
            wide_column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
            bar = [BarColumn(bar_width=20)] if self._console.width >= MIN_BAR_WIDTH else []
            self._progress = Progress(  # on a narrow terminal the figures are cut off
                TextColumn("step", table_column=fixed_column),
                MofNCompleteColumn(table_column=fixed_column),
                *bar,
                TimeRemainingColumn(table_column=fixed_column),
                TextColumn("left", table_column=fixed_column),
                TextColumn("{task.fields[figures]}", markup=False, table_column=wide_column),
                console=self._console,
                expand=True,
            )
            self._task = self._progress.add_task("train", total=config.steps, figures="")

    def __enter__(self) -> ProgressLine:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def on_warmup(self, report: WarmupReport) -> None:
        """Show an update of the warm-up; outside a terminal at most every 10 s."""
        if report.update == 1:
            self._work_start = self._last_work_line = time.monotonic() - report.seconds
        loss = f"  loss {report.loss:.3f}"
        self._show_work("warm-up", report.update, report.updates, loss)

    def on_evaluation(self, done: int, total: int) -> None:
        """Show the progress of an evaluation; outside a terminal at most every 10 s."""
        if not done:
            self._work_start = self._last_work_line = time.monotonic()
            return
        self._show_work("evaluation, game", done, total)

    def _show_work(self, work: str, done: int, total: int, suffix: str = "") -> None:
        now = time.monotonic()
        seconds = (now - self._work_start) / done * (total - done)
        line = f"{work} {done}/{total}  {seconds:.0f} s left{suffix}"
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, figures=line)
        elif now - self._last_work_line >= LINE_SECONDS:
            self._last_work_line = now
            self._console.print(line, soft_wrap=True)

    def __call__(self, report: StepReport) -> None:
        """Show a step."""
        for note in report.notes:
            self._console.print(f"note: {note}")
        for warning in report.warnings:
            self._console.print(f"warning: {warning}", soft_wrap=True)
        update_weight = 1.0 if self._rate == 0.0 else 0.1
        self._rate += update_weight * (1.0 / max(report.seconds, 1e-9) - self._rate)
        names = key_figures(report.metrics)
        figures = {name: report.metrics[name] for name in names}
        self._latest_figures.update({name: (value, report.step) for name, value in figures.items()})
        for name in figures:
            self._print_reference(name)
        has_evaluation = any(name.startswith(("nash_conv/", "match/")) for name in report.metrics)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=report.step, figures=self._describe(report))
        elif (
            has_evaluation
            or report.step == report.steps
            or time.monotonic() - self._last_line >= LINE_SECONDS
        ):
            self._last_line = time.monotonic()
            seconds = (report.steps - report.step) / max(self._rate, 1e-9)
            position = f"step {report.step}/{report.steps}  {seconds:.0f} s left"
            line = f"{position}  {self._describe(report)}"
            self._console.print(line, soft_wrap=True)

    def _describe(self, report: StepReport) -> str:
        """Return rate and key metrics as text; older values have their step."""
        rate = self._rate * report.games
        latest_figures = sorted(
            self._latest_figures.items(), key=lambda figure: KINDS.index(figure[0].split("/")[0])
        )
        parts = []
        for name, (value, step) in latest_figures:
            step_note = f" (step {step})" if step != report.step else ""
            figure = f"{short_name(name, single_game=len(self._games) == 1)} {value:.3f}"
            parts.append(figure + weights_mark(name, self._weights) + step_note)
        parts += filter(None, [format_status(report.timing, report.metrics)])
        parts.append(f"{rate:.{0 if rate >= 10 else 1}f} games/s")
        return escape_controls("  ".join(parts))

    def _print_reference(self, name: str) -> None:
        """Print the NashConv of uniform play once per game, if it can be computed exactly."""
        kind, _, game = name.partition("/")
        if kind != "nash_conv" or game in self._printed_references or game not in self._games:
            return
        self._printed_references.add(game)
        game_references = references_of(configured_game(self._games[game]))
        if game_references is not None:
            uniform = game_references.uniform.nash_conv
            line = f"{game}: uniform play has NashConv {uniform:.3f}; an equilibrium has 0"
            self._console.print(line)


KINDS = ("nash_conv", "match", "match_seen", "return", "legal_rate")  # in the line's order


def key_figures(metrics: Iterable[str]) -> list[str]:
    """Return the metrics of the progress line; without ``legal_rate`` it shows returns."""
    names = list(metrics)
    is_free_text = "legal_rate" not in names

    def is_shown(name: str) -> bool:
        kind, measure = name.split("/")[0], name.rpartition("/")[2]
        if kind in ("match", "match_seen"):
            return measure in ("win_or_draw", "success")
        return name == "legal_rate" or kind == "nash_conv" or (kind == "return" and is_free_text)

    return [name for name in names if is_shown(name)]


def short_name(name: str, *, single_game: bool = False) -> str:
    """Return a metric's displayed name; a ``single_game`` is not named."""
    parts = name.split("/")
    kind, game = parts[0], [] if single_game else parts[1:2]
    if kind not in ("match", "match_seen"):
        return " ".join([{"nash_conv": "NashConv", "legal_rate": "legal"}.get(kind, name), *game])
    *opponent_parts, role, measure = parts[2:]  # an opponent's name may contain /
    parts_of_match = (
        ["success"]
        if measure == "success"
        else [role, "vs", "/".join(opponent_parts), "win-or-draw"]
    )
    return " ".join([*game, *parts_of_match, *(["on seen starts"] if kind == "match_seen" else [])])

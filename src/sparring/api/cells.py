"""Cells: the runs and measurements of an experiment, each in its own process.

The file `cell.json` in a cell's folder holds the command, the commit, the date, the seconds and the
results. A cell whose command has changed runs again, so that settings never mix. Cells of several
commits are refused. A stopped study continues with its unfinished cells.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sparring.config.yaml_text import parse_yaml
from sparring.core import version
from sparring.core.errors import ConfigError, LockedError, RunError
from sparring.core.files import parse_json, write_bytes_atomic
from sparring.core.foreign_text import in_words
from sparring.run.events import METRICS
from sparring.run.folder import CONFIG
from sparring.run.provenance import code_commit

Row = dict[str, Any]
RunCommand = Callable[[Sequence[str]], str]
"""Runs a command, given as words, and returns its standard output."""

Measure = Callable[[Path, str, RunCommand], Any]
"""Returns a cell's results from its folder, its standard output and a way to run commands."""

RESULT_FILE = "found.json"  # a measuring module writes it into its cell's folder
Watch = Callable[[str], None]
RECORD_FILE = "cell.json"
MAX_ERROR_CHARS = 1500  # of the end of a failed command's output
# A process ends when its parent ends, as its standard input closes then.
_PREAMBLE = """\
import os, sys, threading
def end_with_parent():
    while os.read(0, 1): pass
    os._exit(1)
threading.Thread(target=end_with_parent, daemon=True).start()
"""
_VERB_CODE = f"{_PREAMBLE}sys.argv[0] = 'sparring'\nfrom sparring.cli import main\nmain()"
_MODULE_CODE = f"{_PREAMBLE}import runpy\nrunpy.run_module(sys.argv.pop(1), run_name='__main__')"

LOCK = ".lock"
POLL_SECONDS = 1.0  # an interrupt may not end a longer wait
QUIET_SECONDS = 300.0  # without a line, after which progress tells what runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One run of a study: a command and a measure of its results.

    Args:
        key: unique in the study, e.g. ("demo", 3).
        folder: name of the cell's folder inside the study's folder.
        command: the words as they are typed, `sparring` or `python -m MODULE` first.
        place: further words that name paths; `{}` stands for the cell's folder and `{version}` for
            the commit of the code.
        measure: returns the results as values of JSON.
        after: keys of the cells that must be done before this one begins.
    """

    key: tuple[Any, ...]
    folder: str
    command: tuple[str, ...]
    place: tuple[str, ...]
    measure: Measure
    after: tuple[tuple[Any, ...], ...] = ()


CellRecords = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""Record of each cell by its key: `command`, `commit`, `date`, `seconds`, `found`."""


def module_cell(
    module: str,
    inputs: Mapping[str, Any],
    *,
    key: tuple[Any, ...],
    name: str,
    after: Sequence[tuple[Any, ...]] = (),
) -> Cell:
    """Return the cell of a module that reads its inputs as JSON and writes a file of results.

    Args:
        module: run by ``python -m MODULE INPUTS FILE``.
        inputs: arguments of the module.
        key: see ``Cell``.
        name: of the cell's folder, in which spaces become hyphens.
        after: see ``Cell``.
    """
    return Cell(
        key=key,
        folder=_folder(name),
        command=("python", "-m", module, json.dumps(inputs)),
        place=(f"{{}}/{RESULT_FILE}",),
        measure=lambda folder, stdout, run_command: parse_json((folder / RESULT_FILE).read_bytes()),
        after=tuple(after),
    )


MODEL = (
    "model"  # folder inside a run's folder with the exported policy, from which other runs begin
)


def training_cell(
    key: tuple[Any, ...],
    folder: str,
    recipe: str,
    changes: Sequence[str],
    measure: Measure,
    *,
    begins: Cell | None = None,
) -> Cell:
    """Return the cell of a training run.

    Args:
        key: see ``Cell``.
        folder: see ``Cell``.
        recipe: a recipe's name.
        changes: overrides of the recipe, e.g. ["seed=0", "threads=1"].
        measure: see ``Cell``.
        begins: the cell whose exported model this run begins from, see ``with_export``; None: the
            recipe says how the run begins.
    """
    model = (f"model.name={{}}/../{begins.folder}/{MODEL}",) if begins else ()
    return Cell(
        key=key,
        folder=_folder(folder),
        command=("sparring", "train", recipe, *changes),
        place=(*model, "--run", "{}", "--overwrite"),
        measure=measure,
        after=(begins.key,) if begins else (),
    )


def _folder(name: str) -> str:
    return name.replace("/", "-").replace(" ", "-")


def with_export(measure: Measure) -> Measure:
    """Return a measure that also exports a run's policy, from which other runs begin."""

    def measure_and_export(run: Path, stdout: str, run_command: RunCommand) -> Any:
        run_command(["sparring", "export", str(run), str(run / MODEL)])
        return measure(run, stdout, run_command)

    return measure_and_export


def seed_rows(
    records: CellRecords, labels: Callable[..., Row], figures: Callable[[Any], Mapping[str, Any]]
) -> list[Row]:
    """Return one row per group of cells that differ only in their seed.

    Args:
        records: of all cells; the last part of a key is the seed.
        labels: returns a row's labels from the other parts of the key.
        figures: returns the figures of a cell's results; the cell's seconds are added.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for (*key, seed), record in records.items():
        row = rows.setdefault(tuple(key), {**labels(*key), "values": {}})
        for name, value in {**figures(record["found"]), "seconds": record["seconds"]}.items():
            row["values"].setdefault(name, {})[str(seed)] = value
    return list(rows.values())


def by_seed(figures: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {figure: {seed: value}} from one mapping of figures per seed."""
    return {name: {str(seed): row[name] for seed, row in enumerate(figures)} for name in figures[0]}


CellResult = tuple[Cell, dict[str, Any] | RunError]


class StudyStopped(Exception):
    """The study was stopped, so its commands were ended."""


class Workplace:
    """Runs the cells of a study and stores their records.

    Args:
        folder: the study's folder; each cell has a folder in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = code_commit() or f"sparring {version()}"
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def stored_record(self, cell: Cell) -> dict[str, Any] | None:
        """Return the record of a cell, or None if the cell has to run."""
        try:
            record = parse_json((self.folder / cell.folder / RECORD_FILE).read_bytes())
            is_current = record["command"] == shlex.join(cell.command) and "found" in record
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return dict(record) if is_current else None

    def run(self, cell: Cell) -> dict[str, Any]:
        """Run a cell and return its record.

        Raises:
            RunError: the command failed; the message ends with its last output.
            StudyStopped: the study was stopped.
        """
        folder = self.folder / cell.folder
        began = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        version = self.version.replace(" ", "-")
        place = [word.replace("{}", str(folder)) for word in cell.place]
        place = [word.replace("{version}", version) for word in place]
        stdout = self.run_command([*cell.command, *place])
        seconds = round(time.perf_counter() - began, 1)
        measured = cell.measure(folder, stdout, self.run_command)
        about = {"command": shlex.join(cell.command), "commit": self.version}
        about |= {"date": time.strftime("%Y-%m-%d")}
        record = {**about, "seconds": seconds, "found": measured}
        write_bytes_atomic(folder / RECORD_FILE, f"{json.dumps(record)}\n".encode())
        return record

    def progress_of(self, cell: Cell) -> str:
        """Return a cell's name and, for a run, the number of finished steps."""
        folder = self.folder / cell.folder
        try:
            steps = _steps(folder)
            num_steps = len((folder / METRICS).read_bytes().splitlines())
        except (OSError, ConfigError, ValueError, LookupError, TypeError):
            return cell.folder
        return f"{cell.folder} ({f'step {num_steps} of {steps}' if num_steps else 'before step 1'})"

    def run_command(self, words: Sequence[str]) -> str:
        """Run a command with one thread and return its standard output.

        Raises:
            RunError: the command failed; the message ends with its last output.
            StudyStopped: the study was stopped.
        """
        read_end, write_end = os.pipe()  # only this process holds the write end
        try:
            process = self._start(words, read_end)
            stdout, stderr = process.communicate()
        finally:
            os.close(read_end)
            os.close(write_end)
        with self._lock:
            self._running.discard(process)
        if self._stopped:
            raise StudyStopped
        if process.returncode:
            message = (stderr.strip() or stdout.strip())[-MAX_ERROR_CHARS:]
            raise RunError(f"`{shlex.join(words)}` failed with {process.returncode}: {message}")
        return stdout

    def _start(self, words: Sequence[str], stdin: int) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise StudyStopped
            importable = [*sys.path, os.environ.get("PYTHONPATH", "")]
            process = subprocess.Popen(
                program(words),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(filter(None, importable)),
                },
                start_new_session=True,  # an interrupt from the terminal is the study's to handle
            )
            self._running.add(process)
        return process

    def stop(self) -> None:
        """Kill the running commands and let no other one begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()


def program(words: Sequence[str]) -> list[str]:
    """Return the arguments of a process that runs a command and ends when this process ends."""
    if words[0] == "sparring":
        return [sys.executable, "-P", "-c", _VERB_CODE, *words[1:]]
    return [sys.executable, "-P", "-c", _MODULE_CODE, *words[2:]]


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return a run's metrics, one mapping per step.

    Raises:
        RunError: a signal or a health rule stopped the run before its last step.
    """
    lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    steps = _steps(run) if (run / CONFIG).exists() else None
    num_steps = rows[-1]["step"] if rows else 0
    if steps is not None and num_steps != steps:
        raise RunError(f"{run} was stopped after {num_steps} of {steps} steps; run this again.")
    return rows


def _steps(run: Path) -> int:
    config = run / CONFIG
    steps: int = parse_yaml(config.read_text(encoding="utf-8"), str(config))["steps"]
    return steps


def origin(cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the commit and the last date of cells, as a results file has them.

    Raises:
        RunError: the cells come from several commits.
    """
    cells = list(cells)
    commits = sorted({cell["commit"] for cell in cells})
    if len(commits) > 1:
        raise RunError(
            f"The cells come from {len(commits)} commits: {', '.join(commits)}. Keep those of one "
            "in the folder and run this again, or name another with --folder; a clone that nobody "
            "changes stays at one."
        )
    installed = commits[0].startswith("sparring ")
    return {
        "commit": None if installed else commits[0],
        "date": max(cell["date"] for cell in cells),
    }


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock a study's folder.

    Raises:
        LockedError: another process has the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(folder / LOCK))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise LockedError(
            f"Another process works in {folder}; wait for it, or name another with --folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def run_cells(cells: Iterable[Cell], place: Workplace, workers: int, watch: Watch) -> CellRecords:
    """Run the cells that are not done and return the records of all.

    Raises:
        RunError: cells failed, or come from several commits; the other records stay.
    """
    cells = list(cells)
    stored = {cell.key: place.stored_record(cell) for cell in cells}
    records = {key: record for key, record in stored.items() if record is not None}
    pending = [cell for cell in cells if cell.key not in records]
    watch(f"{len(records)} of {len(cells)} cells are done in {place.folder}.")
    other_commits = sorted({record["commit"] for record in records.values()} - {place.version})
    if pending and other_commits:
        raise RunError(
            f"{place.folder} holds cells of {', '.join(other_commits)}, and this code is "
            f"{place.version}. Cells of several commits give no results: use that code, or name "
            "another folder with --folder; a clone that nobody changes stays at one commit."
        )
    failed: list[str] = []
    progress = Progress(len(cells), len(records), watch)
    for cell, answer in _answers(pending, set(records), place, workers, progress.running):
        if isinstance(answer, RunError):
            failed.append(str(answer))
            watch(f"{cell.folder} failed: {answer}")
        else:
            records[cell.key] = answer
            progress.done(cell)
    if failed:
        raise RunError(
            f"{len(failed)} of {len(cells)} cells failed, the first: {failed[0]} The others are "
            "kept; once the cause is mended, the same command runs those that are left."
        )
    return {cell.key: records[cell.key] for cell in cells}


def _answers(
    cells: list[Cell],
    finished: set[tuple[Any, ...]],
    place: Workplace,
    workers: int,
    running: Callable[[Workplace, Iterable[Cell]], None],
) -> Iterator[CellResult]:
    """Yield each cell with its record or its error.

    Args:
        cells: the cells to run; a cell begins once the cells in its ``after`` are done, and cells
            that others wait for begin first.
        finished: keys of finished cells.
        place: runs the cells.
        workers: number of cells that run at once.
        running: called each second with the running cells.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting, finished = list(cells), set(finished)
        busy: dict[Future[dict[str, Any]], Cell] = {}
        try:
            while waiting or busy:
                for cell in _ready(waiting, finished)[: workers - len(busy)]:
                    waiting.remove(cell)
                    busy[pool.submit(place.run, cell)] = cell
                if not busy:
                    for cell in waiting:
                        yield cell, RunError("not run, as a cell that it needs failed")
                    return
                running(place, busy.values())
                for ended in wait(busy, POLL_SECONDS, FIRST_COMPLETED).done:
                    cell, answer = busy.pop(ended), _answer(ended)
                    if not isinstance(answer, RunError):
                        finished.add(cell.key)
                    yield cell, answer
        finally:
            place.stop()  # after an interrupt some cells still run


def _ready(waiting: list[Cell], finished: set[tuple[Any, ...]]) -> list[Cell]:
    """Return the cells that may begin; the cells that others wait for come first."""
    awaited = {key for cell in waiting for key in cell.after}
    ready_cells = [cell for cell in waiting if finished.issuperset(cell.after)]
    return sorted(ready_cells, key=lambda cell: cell.key not in awaited)


def _answer(future: Future[dict[str, Any]]) -> dict[str, Any] | RunError:
    try:
        return future.result()
    except RunError as error:
        return error
    except StudyStopped:
        return RunError("stopped")
    except (OSError, ValueError, LookupError, StopIteration) as error:  # unusable files
        return RunError(f"what it left cannot be measured: {type(error).__name__}: {error}")


class Progress:
    """Writes lines of progress: cells done, time per cell, time left and running cells.

    Args:
        cells: number of cells of the study.
        before: number of cells that were done before.
        watch: called with each line.
    """

    def __init__(self, cells: int, before: int, watch: Watch) -> None:
        self._cells, self._before, self._watch = cells, before, watch
        self._now, self._began = 0, time.monotonic()
        self._last_line = self._began

    def done(self, cell: Cell) -> None:
        """Write a line about a finished cell."""
        self._now += 1
        each = (time.monotonic() - self._began) / self._now
        count = self._before + self._now
        duration = in_words(each * (self._cells - count) / 60) if count < self._cells else "nothing"
        rate = f"one every {in_words(each / 60)}"
        self._tell(f"{count}/{self._cells} cells done, {rate}, {duration} left: {cell.folder}")

    def running(self, place: Workplace, cells: Iterable[Cell]) -> None:
        """Write a line about the running cells if there was none for ``QUIET_SECONDS``."""
        if time.monotonic() - self._last_line < QUIET_SECONDS:
            return
        minutes = in_words((time.monotonic() - self._began) / 60)
        self._tell(f"After {minutes}: {', '.join(map(place.progress_of, cells))}.")

    def _tell(self, line: str) -> None:
        self._last_line = time.monotonic()
        self._watch(line)

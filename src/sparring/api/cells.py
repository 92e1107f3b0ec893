"""Runs the cells of a study; a cell is one training run or measurement in its own process.

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
"""Computes a cell's results from its folder and standard output; may run further commands."""

RESULT_FILE = "found.json"  # a measuring module writes it into its cell's folder
Watch = Callable[[str], None]
RECORD_FILE = "cell.json"
MAX_ERROR_CHARS = 1500  # characters from the end of a failed command's output
# When the parent ends, the child's standard input closes, and the child ends itself.
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
POLL_SECONDS = 1.0  # an interrupt is noticed only between two waits of this length
QUIET_SECONDS = 300.0  # after this time without a line, a line names the running cells


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One run of a study: a command and a measure of its results.

    Args:
        key: a key that is unique in the study, e.g. ("demo", 3).
        folder: name of the cell's folder inside the study's folder.
        command: words of the command line; it begins with `sparring` or `python -m MODULE`.
        path_words: further words, which contain paths; `{}` stands for the cell's folder and
            `{version}` for the commit of the code. If only these words change, the
            cell does not run again.
        measure: returns the results as JSON values.
        after: keys of the cells that must be finished before this one begins.
    """

    key: tuple[Any, ...]
    folder: str
    command: tuple[str, ...]
    path_words: tuple[str, ...]
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
        module: name of the module; ``python -m MODULE INPUTS FILE`` runs it.
        inputs: the module's inputs.
        key: see ``Cell``.
        name: name of the cell's folder, in which spaces become hyphens.
        after: see ``Cell``.
    """
    return Cell(
        key=key,
        folder=_folder(name),
        command=("python", "-m", module, json.dumps(inputs)),
        path_words=(f"{{}}/{RESULT_FILE}",),
        measure=lambda folder, stdout, run_command: parse_json((folder / RESULT_FILE).read_bytes()),
        after=tuple(after),
    )


MODEL = (
    "model"  # folder inside a run's folder with the exported policy, which other runs start from
)


def training_cell(
    key: tuple[Any, ...],
    folder: str,
    recipe: str,
    changes: Sequence[str],
    measure: Measure,
    *,
    parent: Cell | None = None,
) -> Cell:
    """Return the cell of a training run.

    Args:
        key: see ``Cell``.
        folder: see ``Cell``.
        recipe: name of the recipe.
        changes: overrides of the recipe, e.g. ["seed=0", "threads=1"].
        measure: see ``Cell``.
        parent: the cell whose exported model this run starts from (``with_export``); None: the run
            starts from the recipe's model.
    """
    model = (f"model.name={{}}/../{parent.folder}/{MODEL}",) if parent else ()
    return Cell(
        key=key,
        folder=_folder(folder),
        command=("sparring", "train", recipe, *changes),
        path_words=(*model, "--run", "{}", "--overwrite"),
        measure=measure,
        after=(parent.key,) if parent else (),
    )


def _folder(name: str) -> str:
    return name.replace("/", "-").replace(" ", "-")


def with_export(measure: Measure) -> Measure:
    """Return a measure that also exports the run's policy, so that other runs can start from it."""

    def measure_and_export(run: Path, stdout: str, run_command: RunCommand) -> Any:
        run_command(["sparring", "export", str(run), str(run / MODEL)])
        return measure(run, stdout, run_command)

    return measure_and_export


def seed_rows(
    records: CellRecords, labels: Callable[..., Row], figures: Callable[[Any], Mapping[str, Any]]
) -> list[Row]:
    """Return one row per group of cells that differ only in their seed.

    Args:
        records: records of all cells; the last part of a key is the seed.
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


class CellRunner:
    """Runs the cells of a study and stores their records.

    Args:
        folder: the study's folder; each cell has a folder in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = code_commit() or f"sparring {version()}"
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

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
        start = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        version = self.version.replace(" ", "-")
        paths = [word.replace("{}", str(folder)) for word in cell.path_words]
        paths = [word.replace("{version}", version) for word in paths]
        stdout = self.run_command([*cell.command, *paths])
        seconds = round(time.perf_counter() - start, 1)
        results = cell.measure(folder, stdout, self.run_command)
        provenance = {"command": shlex.join(cell.command), "commit": self.version}
        provenance |= {"date": time.strftime("%Y-%m-%d")}
        record = {**provenance, "seconds": seconds, "found": results}
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
        if self._is_stopped:
            raise StudyStopped
        if process.returncode:
            message = (stderr.strip() or stdout.strip())[-MAX_ERROR_CHARS:]
            raise RunError(f"`{shlex.join(words)}` failed with {process.returncode}: {message}")
        return stdout

    def _start(self, words: Sequence[str], stdin: int) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise StudyStopped
            import_paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
            process = subprocess.Popen(
                process_args(words),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(filter(None, import_paths)),
                },
                start_new_session=True,  # an interrupt from the terminal reaches only the study
            )
            self._running.add(process)
        return process

    def stop(self) -> None:
        """Kill the running commands; no further command can begin."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.kill()


def process_args(words: Sequence[str]) -> list[str]:
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
    """Return the commit and the last date of cells, for a study's results file.

    Raises:
        RunError: the cells come from several commits.
    """
    cells = list(cells)
    commits = sorted({cell["commit"] for cell in cells})
    if len(commits) > 1:
        raise RunError(
            f"The cells come from {len(commits)} commits: {', '.join(commits)}. Keep the cells of "
            "one commit in the folder and run this again, or name another folder with --folder; "
            "run studies from a clone that nobody changes."
        )
    is_installed = commits[0].startswith("sparring ")
    return {
        "commit": None if is_installed else commits[0],
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
            f"Another process uses {folder}; wait for it, or name another folder with --folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def run_cells(cells: Iterable[Cell], runner: CellRunner, workers: int, watch: Watch) -> CellRecords:
    """Run the unfinished cells and return the records of all cells.

    Raises:
        RunError: cells failed, or come from several commits; the other records stay stored.
    """
    cells = list(cells)
    stored_records = {cell.key: runner.stored_record(cell) for cell in cells}
    records = {key: record for key, record in stored_records.items() if record is not None}
    queue = [cell for cell in cells if cell.key not in records]
    watch(f"{len(records)} of {len(cells)} cells are done in {runner.folder}.")
    other_commits = sorted({record["commit"] for record in records.values()} - {runner.version})
    if queue and other_commits:
        raise RunError(
            f"{runner.folder} holds cells of {', '.join(other_commits)}, and this code is "
            f"{runner.version}. The cells of a study must come from one commit: use that code, or "
            "name another folder with --folder; run studies from a clone that nobody changes."
        )
    failures: list[str] = []
    progress = Progress(len(cells), len(records), watch)
    for cell, result in _run_all(queue, set(records), runner, workers, progress.tell_running):
        if isinstance(result, RunError):
            failures.append(str(result))
            watch(f"{cell.folder} failed: {result}")
        else:
            records[cell.key] = result
            progress.tell_finished(cell)
    if failures:
        raise RunError(
            f"{len(failures)} of {len(cells)} cells failed, the first: {failures[0]} The records "
            "of the others are stored; correct the cause and run the same command again."
        )
    return {cell.key: records[cell.key] for cell in cells}


def _run_all(
    cells: list[Cell],
    done_keys: set[tuple[Any, ...]],
    runner: CellRunner,
    workers: int,
    tell_running: Callable[[CellRunner, Iterable[Cell]], None],
) -> Iterator[CellResult]:
    """Run cells and yield each with its record or its error.

    Args:
        cells: the cells to run; a cell begins once the cells in its ``after`` are finished. Cells
            that others wait for begin first.
        done_keys: keys of finished cells.
        runner: runs the cells.
        workers: number of cells that run at once.
        tell_running: called each second with the running cells.
    """
    with ThreadPoolExecutor(workers) as pool:
        queue, done_keys = list(cells), set(done_keys)
        futures: dict[Future[dict[str, Any]], Cell] = {}
        try:
            while queue or futures:
                for cell in _find_ready(queue, done_keys)[: workers - len(futures)]:
                    queue.remove(cell)
                    futures[pool.submit(runner.run, cell)] = cell
                if not futures:
                    for cell in queue:
                        yield cell, RunError("not run, as a cell that it needs failed")
                    return
                tell_running(runner, futures.values())
                for future in wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
                    cell, result = futures.pop(future), _result_or_error(future)
                    if not isinstance(result, RunError):
                        done_keys.add(cell.key)
                    yield cell, result
        finally:
            runner.stop()  # after an interrupt some cells still run


def _find_ready(pending_cells: list[Cell], finished_keys: set[tuple[Any, ...]]) -> list[Cell]:
    needed_keys = {key for cell in pending_cells for key in cell.after}
    ready_cells = [cell for cell in pending_cells if finished_keys.issuperset(cell.after)]
    return sorted(ready_cells, key=lambda cell: cell.key not in needed_keys)


def _result_or_error(future: Future[dict[str, Any]]) -> dict[str, Any] | RunError:
    try:
        return future.result()
    except RunError as error:
        return error
    except StudyStopped:
        return RunError("stopped")
    except (OSError, ValueError, LookupError, StopIteration) as error:  # unusable files
        return RunError(f"its results cannot be measured: {type(error).__name__}: {error}")


class Progress:
    """Writes lines of progress: finished cells, time per cell, time left and running cells.

    Args:
        num_cells: number of cells of the study.
        num_stored: number of cells that were finished at the start.
        watch: called with each line.
    """

    def __init__(self, num_cells: int, num_stored: int, watch: Watch) -> None:
        self._num_cells, self._num_stored, self._watch = num_cells, num_stored, watch
        self._num_run, self._start_time = 0, time.monotonic()
        self._last_line = self._start_time

    def tell_finished(self, cell: Cell) -> None:
        """Write a line about a finished cell."""
        self._num_run += 1
        minutes = (time.monotonic() - self._start_time) / 60 / self._num_run
        num_done = self._num_stored + self._num_run
        num_left = self._num_cells - num_done
        duration = in_words(minutes * num_left) if num_left > 0 else "nothing"
        rate = f"one every {in_words(minutes)}"
        self._tell(
            f"{num_done}/{self._num_cells} cells done, {rate}, {duration} left: {cell.folder}"
        )

    def tell_running(self, runner: CellRunner, cells: Iterable[Cell]) -> None:
        """Write a line about the running cells if there was none for ``QUIET_SECONDS``."""
        if time.monotonic() - self._last_line < QUIET_SECONDS:
            return
        minutes = in_words((time.monotonic() - self._start_time) / 60)
        self._tell(f"After {minutes}: {', '.join(map(runner.progress_of, cells))}.")

    def _tell(self, line: str) -> None:
        self._last_line = time.monotonic()
        self._watch(line)

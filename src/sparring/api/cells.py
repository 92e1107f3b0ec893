"""Cells: runs and measurements of an experiment, each a process of its own, kept and resumed.

Beside a cell's run lies `cell.json`: the command, the commit of the code, the date, seconds, and
what was measured. A cell whose command has changed is run again, so that settings never mix. Cells
of several commits are refused. What is done is not done again after a stop.
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
Ask = Callable[[Sequence[str]], str]
"""Runs a command, `sparring` first, and returns what it printed."""

Measure = Callable[[Path, str, Ask], Any]
"""Gives what a cell came to: from its folder, what its command printed, and further commands."""


FOUND = "found.json"  # what a module that measures writes into its cell's folder
Watch = Callable[[str], None]
KEPT = "cell.json"
SHOWN = 1500  # characters of the last words of a command that failed
# A process ends when the one that started it does: the pipe to it ends then. What it had not
# finished is run again.
_BEGIN = """\
import os, sys, threading
def end_with_parent():
    while os.read(0, 1): pass
    os._exit(1)
threading.Thread(target=end_with_parent, daemon=True).start()
"""
_VERB = f"{_BEGIN}sys.argv[0] = 'sparring'\nfrom sparring.cli import main\nmain()"
_MODULE = f"{_BEGIN}import runpy\nrunpy.run_module(sys.argv.pop(1), run_name='__main__')"


LOCK = ".lock"
LOOK = 1.0  # seconds: an interrupt that comes as a wait begins, or to another thread, ends no wait
QUIET = 300.0  # seconds without a line after which it is told what runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One run of a study: a command, and what is measured of it.

    Args:
        key: what tells the cell from the study's others, e.g. ("demo", 3).
        folder: its folder's name in the study's.
        command: the words as they are typed, `sparring` or `python -m MODULE` first.
        place: further words, that name a place: `{}` stands for the cell's folder, `{version}` for
            the commit of the code.
        measure: what is kept of it, as JSON holds it.
        after: keys of cells of the study that must be done before this one begins.
    """

    key: tuple[Any, ...]
    folder: str
    command: tuple[str, ...]
    place: tuple[str, ...]
    measure: Measure
    after: tuple[tuple[Any, ...], ...] = ()


CellRecords = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""What is kept of each cell by its key: `command`, `commit`, `date`, `seconds`, `found`."""


def module_cell(
    module: str,
    given: Mapping[str, Any],
    *,
    key: tuple[Any, ...],
    name: str,
    after: Sequence[tuple[Any, ...]] = (),
) -> Cell:
    """Return the cell of a module that is told what to run as JSON, and writes what it found.

    Args:
        module: run by ``python -m MODULE GIVEN FILE``.
        given: what it is told.
        key: of the cell.
        name: of its folder, in which spaces become hyphens.
        after: see ``Cell``.
    """
    return Cell(
        key=key,
        folder=_folder(name),
        command=("python", "-m", module, json.dumps(given)),
        place=(f"{{}}/{FOUND}",),
        measure=lambda folder, said, ask: parse_json((folder / FOUND).read_bytes()),
        after=tuple(after),
    )


MODEL = "model"  # the folder in a run's, where a study exports its policy for others to begin from


def training(
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
        changes: changes to it, e.g. ["seed=0", "threads=1"].
        measure: see ``Cell``.
        begins: the run that this one begins from, measured by ``exporting``; None: it begins as
            its recipe says.
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


def exporting(measure: Measure) -> Measure:
    """Return a measure that also exports a run's policy, for others to begin from."""

    def measured(run: Path, said: str, ask: Ask) -> Any:
        ask(["sparring", "export", str(run), str(run / MODEL)])
        return measure(run, said, ask)

    return measured


def seed_rows(
    kept: CellRecords, labels: Callable[..., Row], figures: Callable[[Any], Mapping[str, Any]]
) -> list[Row]:
    """Return one row for the cells that differ in their seed alone, with each seed's values.

    Args:
        kept: of all cells; the last part of a key is the seed.
        labels: gives a row's labels from the other parts of the key.
        figures: gives the figures of what was measured of a cell; its seconds are added.
    """
    found: dict[tuple[Any, ...], Row] = {}
    for (*key, seed), one in kept.items():
        row = found.setdefault(tuple(key), {**labels(*key), "values": {}})
        for name, value in {**figures(one["found"]), "seconds": one["seconds"]}.items():
            row["values"].setdefault(name, {})[str(seed)] = value
    return list(found.values())


def by_seed(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {figure: {seed: value}} of figures by seed."""
    return {name: {str(seed): one[name] for seed, one in enumerate(found)} for name in found[0]}


Answer = tuple[Cell, dict[str, Any] | RunError]


class Stopped(Exception):
    """A command was ended, as the study is."""


class Workplace:
    """Where the cells of a study are run and kept.

    Args:
        folder: each cell has a folder in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = code_commit() or f"sparring {version()}"
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def kept(self, cell: Cell) -> dict[str, Any] | None:
        """Return what is kept of a cell, or None where it is to be run."""
        try:
            found = parse_json((self.folder / cell.folder / KEPT).read_bytes())
            same = found["command"] == shlex.join(cell.command) and "found" in found
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return dict(found) if same else None

    def run(self, cell: Cell) -> dict[str, Any]:
        """Run a cell and return what is kept of it.

        Raises:
            RunError: it failed; its last words are told.
            Stopped: the study was stopped.
        """
        folder = self.folder / cell.folder
        began = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        version = self.version.replace(" ", "-")
        place = [word.replace("{}", str(folder)) for word in cell.place]
        place = [word.replace("{version}", version) for word in place]
        said = self.ask([*cell.command, *place])
        seconds = round(time.perf_counter() - began, 1)
        measured = cell.measure(folder, said, self.ask)
        found = {"command": shlex.join(cell.command), "commit": self.version}
        found |= {"date": time.strftime("%Y-%m-%d")}
        kept = {**found, "seconds": seconds, "found": measured}
        write_bytes_atomic(folder / KEPT, f"{json.dumps(kept)}\n".encode())
        return kept

    def reached(self, cell: Cell) -> str:
        """Return a cell's name, and of a run how many steps it has done."""
        folder = self.folder / cell.folder
        try:
            steps = _steps(folder)
            done = len((folder / METRICS).read_bytes().splitlines())
        except (OSError, ConfigError, ValueError, LookupError, TypeError):
            return cell.folder
        return f"{cell.folder} ({f'step {done} of {steps}' if done else 'before step 1'})"

    def ask(self, words: Sequence[str]) -> str:
        """Run a command with one thread and return what it printed.

        Raises:
            RunError: it failed; its last words are told.
            Stopped: the study was stopped.
        """
        read, written = os.pipe()  # the end that is written to is ours alone, and closes with us
        try:
            process = self._start(words, read)
            said, complained = process.communicate()
        finally:
            os.close(read)
            os.close(written)
        with self._lock:
            self._running.discard(process)
        if self._stopped:
            raise Stopped
        if process.returncode:
            told = (complained.strip() or said.strip())[-SHOWN:]
            raise RunError(f"`{shlex.join(words)}` failed with {process.returncode}: {told}")
        return said

    def _start(self, words: Sequence[str], stdin: int) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise Stopped
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
        """End the commands that run now, and let none begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()


def program(words: Sequence[str]) -> list[str]:
    """Return what runs a command as a process that ends when this one does."""
    if words[0] == "sparring":
        return [sys.executable, "-P", "-c", _VERB, *words[1:]]
    return [sys.executable, "-P", "-c", _MODULE, *words[2:]]


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return a run's metrics by step.

    Raises:
        RunError: the run was stopped before its last step, by a signal or a health rule.
    """
    lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    steps = _steps(run) if (run / CONFIG).exists() else None
    done = found[-1]["step"] if found else 0
    if steps is not None and done != steps:
        raise RunError(f"{run} was stopped after {done} of {steps} steps; run this again.")
    return found


def _steps(run: Path) -> int:
    config = run / CONFIG
    steps: int = parse_yaml(config.read_text(encoding="utf-8"), str(config))["steps"]
    return steps


def origin(cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a results file that come from kept cells: their commit and last date.

    Raises:
        RunError: they come from several commits.
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
    """Hold a study's folder.

    Raises:
        LockedError: another process holds it.
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
    """Return what is kept of each cell, after running those that are not done.

    Raises:
        RunError: cells failed, or come from several commits; the others are kept.
    """
    cells = list(cells)
    found = {cell.key: place.kept(cell) for cell in cells}
    kept = {key: one for key, one in found.items() if one is not None}
    wanted = [cell for cell in cells if cell.key not in kept]
    watch(f"{len(kept)} of {len(cells)} cells are done in {place.folder}.")
    others = sorted({one["commit"] for one in kept.values()} - {place.version})
    if wanted and others:
        raise RunError(
            f"{place.folder} holds cells of {', '.join(others)}, and this code is {place.version}. "
            "Cells of several commits make no results: go on with that code, or name another "
            "folder with --folder; a clone that nobody changes stays at one commit."
        )
    failed: list[str] = []
    progress = Progress(len(cells), len(kept), watch)
    for cell, answer in _answers(wanted, set(kept), place, workers, progress.running):
        if isinstance(answer, RunError):
            failed.append(str(answer))
            watch(f"{cell.folder} failed: {answer}")
        else:
            kept[cell.key] = answer
            progress.done(cell)
    if failed:
        raise RunError(
            f"{len(failed)} of {len(cells)} cells failed, the first: {failed[0]} The others are "
            "kept; once the cause is mended, the same command runs those that are left."
        )
    return {cell.key: kept[cell.key] for cell in cells}


def _answers(
    cells: list[Cell],
    done: set[tuple[Any, ...]],
    place: Workplace,
    workers: int,
    running: Callable[[Workplace, Iterable[Cell]], None],
) -> Iterator[Answer]:
    """Yield each cell with what is kept of it, or with the error that it ended in.

    Args:
        cells: that are to be run; each begins once those that it comes after are done, and those
            that others come after begin first.
        done: keys of cells that are done.
        place: where they are run.
        workers: how many at once.
        running: called each second with the cells that run.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting, done = list(cells), set(done)
        busy: dict[Future[dict[str, Any]], Cell] = {}
        try:
            while waiting or busy:
                for cell in _ready(waiting, done)[: workers - len(busy)]:
                    waiting.remove(cell)
                    busy[pool.submit(place.run, cell)] = cell
                if not busy:
                    for cell in waiting:
                        yield cell, RunError("not run, as a cell that it needs failed")
                    return
                running(place, busy.values())
                for ended in wait(busy, LOOK, FIRST_COMPLETED).done:
                    cell, answer = busy.pop(ended), _answer(ended)
                    if not isinstance(answer, RunError):
                        done.add(cell.key)
                    yield cell, answer
        finally:
            place.stop()  # after an interrupt some still run


def _ready(waiting: list[Cell], done: set[tuple[Any, ...]]) -> list[Cell]:
    """Return the cells that may begin, those that others wait for first."""
    awaited = {key for cell in waiting for key in cell.after}
    ready = [cell for cell in waiting if done.issuperset(cell.after)]
    return sorted(ready, key=lambda cell: cell.key not in awaited)


def _answer(done: Future[dict[str, Any]]) -> dict[str, Any] | RunError:
    try:
        return done.result()
    except RunError as error:
        return error
    except Stopped:
        return RunError("stopped")
    except (OSError, ValueError, LookupError, StopIteration) as error:  # what it left is not usable
        return RunError(f"what it left cannot be measured: {type(error).__name__}: {error}")


class Progress:
    """Lines of progress: cells done of all, how long one takes, time left; what runs meanwhile.

    Args:
        cells: of the study.
        before: that were done before.
        watch: called with each line.
    """

    def __init__(self, cells: int, before: int, watch: Watch) -> None:
        self._cells, self._before, self._watch = cells, before, watch
        self._now, self._began = 0, time.monotonic()
        self._told = self._began

    def done(self, cell: Cell) -> None:
        """Tell that a cell is done."""
        self._now += 1
        each = (time.monotonic() - self._began) / self._now
        done = self._before + self._now
        left = in_words(each * (self._cells - done) / 60) if done < self._cells else "nothing"
        rate = f"one every {in_words(each / 60)}"
        self._tell(f"{done}/{self._cells} cells done, {rate}, {left} left: {cell.folder}")

    def running(self, place: Workplace, cells: Iterable[Cell]) -> None:
        """Tell which cells run, and how far they are, where nothing was told for long."""
        if time.monotonic() - self._told < QUIET:
            return
        minutes = in_words((time.monotonic() - self._began) / 60)
        self._tell(f"After {minutes}: {', '.join(map(place.reached, cells))}.")

    def _tell(self, line: str) -> None:
        self._told = time.monotonic()
        self._watch(line)

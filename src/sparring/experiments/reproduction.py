"""A study run anew: its cells on all cores, each kept; then the content of a results file.

What is done is not done again, so a study that was stopped or killed goes on where it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sparring.errors import LockedError, RunError
from sparring.experiments.cells import Stopped, Workplace, origin
from sparring.experiments.results_file import surroundings
from sparring.experiments.study import Cell, Found, Setting, Study
from sparring.system.files import disk_errors
from sparring.system.text import in_words

Watch = Callable[[str], None]
QUICK = "A quick run: it shows that everything works, and its figures measure nothing."
LOCK = ".lock"
LOOK = 1.0  # seconds: an interrupt that comes as a wait begins, or to another thread, ends no wait
QUIET = 300.0  # seconds without a line after which it is told what runs
Answer = tuple[Cell, dict[str, Any] | RunError]


def reproduce(
    study: Study,
    setting: Setting,
    folder: Path,
    *,
    command: str,
    workers: int | None = None,
    quick: bool = False,
    watch: Watch = lambda line: None,
) -> dict[str, Any]:
    """Run what is not done of a study, and return the content of its results file.

    Args:
        study: what is run.
        setting: of the study.
        folder: where its cells are kept.
        command: the command line, for the results file.
        workers: cells at a time, with one thread each; left out, one per core.
        quick: whether the setting is a minute's version, which the file then says.
        watch: called with a line of progress after every cell.

    Raises:
        RunError: cells failed, or come from several commits.
        LockedError: another process runs this study in the folder.
    """
    cells = study.cells(setting)
    with disk_errors(folder), _held(folder):
        kept = run_cells(cells, Workplace(folder), workers or os.cpu_count() or 1, watch)
    document = {
        "command": command,
        "setting": dict(setting),
        **surroundings(),
        **origin(kept.values()),
        "rows": study.rows(setting, kept),
        **study.fields(setting, kept),
    }
    if quick:
        document |= {"setting": {**document["setting"], "quick": True}, "note": QUICK}
    return document


@contextmanager
def _held(folder: Path) -> Iterator[None]:
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


def run_cells(cells: Iterable[Cell], place: Workplace, workers: int, watch: Watch) -> Found:
    """Return what is kept of each cell, after running those that are not done.

    Raises:
        RunError: cells failed, or come from several commits; the others are kept.
    """
    cells = list(cells)
    found = {cell.key: place.kept(cell) for cell in cells}
    kept = {key: one for key, one in found.items() if one is not None}
    wanted = [cell for cell in cells if cell.key not in kept]
    watch(f"{len(kept)} of {len(cells)} cells are done in {place.folder}.")
    if wanted:
        check_commits(kept, place)
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


def check_commits(kept: Found, place: Workplace) -> None:
    """Check that what is kept comes from this code, before more is added to it.

    Raises:
        RunError: it comes from another commit.
    """
    others = sorted({one["commit"] for one in kept.values()} - {place.version})
    if others:
        raise RunError(
            f"{place.folder} holds cells of {', '.join(others)}, and this code is {place.version}. "
            "Cells of several commits make no results: go on with that code, or name another "
            "folder with --folder; a clone that nobody changes stays at one commit."
        )


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
    """Return what a cell came to, or the error of the run that it ended in."""
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
        """Tell a line, and take note of when."""
        self._told = time.monotonic()
        self._watch(line)

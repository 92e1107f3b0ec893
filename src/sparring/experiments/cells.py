"""The cells of a study, run once each and kept: each is a process of its own with one thread.

Beside a run lies `cell.json`: the command, the commit of the code, the date, seconds, and what was
measured. A cell whose command is not the one asked for is run again, so that cells of another
setting never mix with a study's. Cells of several commits are refused.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sparring
from sparring.errors import ConfigError, RunError
from sparring.experiments.study import Cell
from sparring.run.events import METRICS
from sparring.run.folder import CONFIG
from sparring.run.provenance import code_commit
from sparring.system.files import parse_json, write_bytes_atomic
from sparring.yaml_text import parse_yaml

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


class Stopped(Exception):
    """A command was ended, as the study is."""


class Workplace:
    """Where the cells of a study are run and kept.

    Args:
        folder: each cell has a folder in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = code_commit() or f"sparring {sparring.__version__}"
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
        said = self.ask([*cell.command, *self._placed(cell)])
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

    def _placed(self, cell: Cell) -> list[str]:
        """Return the words that name a place, with the place in them."""
        own = {"{}": str(self.folder / cell.folder), "{version}": self.version.replace(" ", "-")}
        found = list(cell.place)
        for name, value in own.items():
            found = [word.replace(name, value) for word in found]
        return found

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
        """Start a command with a pipe to read from.

        Raises:
            Stopped: the study was stopped.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                program(words),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
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
    """Return how many steps a run is to have."""
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

"""The newest checkpoint of a run that can be read, from its JSON files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sparring.core.errors import SparringError
from sparring.core.files import parse_json
from sparring.view.answers import one_line
from sparring.view.plain_files import read_from
from sparring.view.runs import Run

ENGINE = "engine.json"
UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, SparringError)
Read = TypeVar("Read")


def newest(
    run: Run, files: Sequence[str], read: Callable[..., Read], notes: list[str]
) -> tuple[int | None, Read | None]:
    """Return the step of the newest checkpoint that can be read, and what was read.

    Args:
        run: whose checkpoint it is.
        files: of JSON in the checkpoint.
        read: makes something of what the files say.
        notes: takes a line for each checkpoint that cannot be read.
    """
    for step in reversed(run.checkpoints()):
        folder = folder_of(run, step)
        try:
            return step, read(*(parse_json(read_from(folder / name, 0)[0]) for name in files))
        except UNREADABLE as error:
            notes.append(f"the checkpoint of step {step} cannot be read: {one_line(error)}")
    return None, None


def folder_of(run: Run, step: int) -> Path:
    """Return where the checkpoint of a step is."""
    return run.path / "checkpoints" / f"step_{step:06d}"

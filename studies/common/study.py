"""A study: the experiments behind a page, as cells run once each, and rows of a results file.

A study is a folder beside this one with a file `study.py`, in which a ``Study`` is called
``STUDY``. Its name is the folder's with ``-`` for ``_``. `tables.py` draws its tables; without that
file all figures stand in one table.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparring.api.cells import (
    Cell,
    CellRecords,
    CellRunner,
    Row,
    Watch,
    hold_folder,
    origin,
    run_cells,
)
from sparring.core.errors import UnknownNameError
from sparring.core.files import disk_errors
from studies.common.results_file import software_and_machine

Setting = Mapping[str, Any]
FOLDER = Path(__file__).resolve().parents[1]
QUICK = "A quick run: it shows that everything works, and its figures measure nothing."


def _nothing(setting: Setting, records: CellRecords) -> dict[str, Any]:
    """Return no further fields."""
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """The experiments behind a page.

    Args:
        summary: what they find out, in a line.
        page: the page that shows them, from the repository's root.
        hours: how long they take on two cores.
        setting: the published setting.
        quick: what differs from it in a minute's version.
        cells: the cells of a setting, in the order in which they are run.
        rows: the rows of the results file, from what was kept of the cells.
        fields: further fields of the results file, in place of the usual ones.
    """

    summary: str
    page: str
    hours: float
    setting: Setting
    quick: Setting
    cells: Callable[[Setting], list[Cell]]
    rows: Callable[[Setting, CellRecords], list[Row]]
    fields: Callable[[Setting, CellRecords], dict[str, Any]] = field(default=_nothing)


def names() -> tuple[str, ...]:
    """Return the names of all studies, sorted."""
    folders = (path.parent.name for path in FOLDER.glob("*/study.py"))
    return tuple(sorted(name.replace("_", "-") for name in folders if name != "common"))


def folder_of(name: str) -> str:
    """Return the name of a study's folder."""
    return name.replace("-", "_")


def published(name: str) -> Path:
    """Return the file of a study's published results."""
    return FOLDER / folder_of(name) / "results.json"


def load(name: str) -> Study:
    """Return a study by its name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name not in names():
        hint = "`sparring reproduce` alone says what each is."
        raise UnknownNameError("experiment", name, names(), hint)
    module = importlib.import_module(f"studies.{folder_of(name)}.study")
    study: Study = module.STUDY
    return study


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
    """Run the unfinished cells of a study, and return the content of its results file.

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
    with disk_errors(folder), hold_folder(folder):
        records = run_cells(cells, CellRunner(folder), workers or os.cpu_count() or 1, watch)
    document = {
        "command": command,
        "setting": dict(setting),
        **software_and_machine(),
        **origin(records.values()),
        "rows": study.rows(setting, records),
        **study.fields(setting, records),
    }
    if quick:
        document |= {"setting": {**document["setting"], "quick": True}, "note": QUICK}
    return document

"""The interface of a study: its cells (one run of an experiment each) and the rows of its results.

A study is a folder next to this one, whose file `study.py` defines ``STUDY``, a ``Study``. Its name
is the folder's name with ``-`` in place of ``_``. `tables.py` makes its tables; without that file
all figures are in one table.
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
QUICK_NOTE = "A quick run: it shows that everything works, and its figures measure nothing."


def _no_fields(setting: Setting, records: CellRecords) -> dict[str, Any]:
    """Return no additional fields."""
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """The experiments behind a page.

    Args:
        summary: what the experiments find out, in one line.
        page: path of the page that shows them, from the root of the repository.
        hours: duration on two cores, in hours.
        setting: the published setting.
        quick: changes of the setting for a version of about one minute.
        cells: function that returns the cells of a setting, in the order in which they run.
        rows: function from the records of the cells to the rows of the results file.
        fields: function that returns fields of the results file that replace the usual ones.
    """

    summary: str
    page: str
    hours: float
    setting: Setting
    quick: Setting
    cells: Callable[[Setting], list[Cell]]
    rows: Callable[[Setting, CellRecords], list[Row]]
    fields: Callable[[Setting, CellRecords], dict[str, Any]] = field(default=_no_fields)


def study_names() -> tuple[str, ...]:
    """Return the names of all studies, sorted."""
    folders = (path.parent.name for path in FOLDER.glob("*/study.py"))
    return tuple(sorted(name.replace("_", "-") for name in folders if name != "common"))


def folder_of(name: str) -> str:
    """Return the name of a study's folder."""
    return name.replace("-", "_")


def published_path(name: str) -> Path:
    """Return the file of a study's published results."""
    return FOLDER / folder_of(name) / "results.json"


def load(name: str) -> Study:
    """Return a study by its name.

    Raises:
        UnknownNameError: there is no study with this name.
    """
    if name not in study_names():
        hint = "`sparring reproduce` alone says what each is."
        raise UnknownNameError("experiment", name, study_names(), hint)
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
        study: the study to run.
        setting: setting of the study.
        folder: folder for the results of the cells.
        command: the command line, for the results file.
        workers: number of cells that run at a time, with one thread each; None: one per core.
        quick: whether the setting is the quick version; the results file then says so.
        watch: function that is called with a line of progress after every cell.

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
        document |= {"setting": {**document["setting"], "quick": True}, "note": QUICK_NOTE}
    return document

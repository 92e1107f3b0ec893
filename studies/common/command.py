"""The command `sparring reproduce`: list studies, or run one and write its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.cli.text import print_stderr, say
from sparring.report.terminal import PlainConsole
from studies.common.study import Setting, Study, load, reproduce, study_names
from studies.common.study_tables import (
    check_publishable,
    compare_with_published,
    publish_results,
    write,
)

COLUMNS = ("name", "what it finds out", "page", "hours", "cells")
DEFAULT_FOLDER = Path("runs") / "reproduce"


def run(
    name: str,
    quick: bool,
    folder: Path | None,
    workers: int | None,
    publish: bool,
    as_json: bool,
) -> None:
    """Run a study and say how its results compare with the published ones.

    Args:
        name: name of the study.
        quick: whether to run the quick version, which takes about a minute.
        folder: folder for the cells; None: a folder below runs/reproduce.
        workers: number of cells that run at a time; None: one per core.
        publish: whether to replace the published results.
        as_json: whether to print the results as JSON.

    Raises:
        SparringError: there is no such study, or one of its cells failed.
    """
    study = load(name)
    setting = {**study.setting, **study.quick} if quick else study.setting
    if publish:
        check_publishable(study, setting)
    path = folder or DEFAULT_FOLDER / (f"{name}-quick" if quick else name)
    document = _document(name, study, setting, path, workers, quick)
    files = write(name, document, path)
    files += publish_results(name, document) if publish else []
    if as_json:
        print(json.dumps(document, sort_keys=True))
    tell = print_stderr if as_json else say
    tell(f"Wrote {', '.join(map(str, files))}.")
    for line in compare_with_published(name, document):
        tell(line)
    if publish:
        tell(f"Next: `make docs` writes them into {study.page}.")


def _document(
    name: str, study: Study, setting: Setting, path: Path, workers: int | None, quick: bool
) -> dict[str, Any]:
    """Run a study and return its results; the error of an interrupt says how to continue."""
    command = f"sparring reproduce {name}" + (" --quick" if quick else "")
    try:
        return reproduce(
            study, setting, path, command=command, workers=workers, quick=quick, watch=print_stderr
        )
    except KeyboardInterrupt:
        print_stderr(
            f"Stopped. Finished cells are in {path}; the same command continues with the others."
        )
        raise typer.Exit(130) from None


def print_list(as_json: bool) -> None:
    """Print the list of studies."""
    rows = [_row(name, load(name)) for name in study_names()]
    if as_json:
        print(json.dumps(rows))
        return
    console = PlainConsole()
    if not console.is_terminal:
        say("\n".join("\t".join(map(str, row.values())) for row in rows))
        return
    table = Table(*(Column(head, overflow="fold") for head in COLUMNS), box=SIMPLE)
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)
    console.print("Hours are on two cores. sparring reproduce NAME --quick takes about a minute.")


def _row(name: str, study: Study) -> dict[str, Any]:
    """Return the row of a study in the list."""
    cells = len(study.cells(study.setting))
    return dict(zip(COLUMNS, (name, study.summary, study.page, study.hours, cells), strict=True))

"""sparring reproduce"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.cli.text import complain, say
from sparring.experiments.reproduction import reproduce as run_study
from sparring.experiments.study import Setting, Study, load, names
from sparring.report.study_tables import check_publishable, comparison, publish, write
from sparring.report.terminal import PlainConsole

HEADS = ("name", "what it finds out", "page", "hours", "cells")
FOLDER = Path("runs") / "reproduce"


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment; left out, all are listed.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A minute's version: it shows that all works, and measures nothing."
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="The runs are kept here; default runs/reproduce/NAME, or NAME-quick."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time, one thread each; default one per core."),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--publish", help="Replace the results in this checkout, which make docs draws."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results, or the list, as JSON.")
    ] = False,
) -> None:
    """Run a page's experiments anew on all cores: results, tables and verdicts."""
    if name is None or listed:
        _list(as_json)
        return
    study = load(name)
    setting = {**study.setting, **study.quick} if quick else study.setting
    root = check_publishable(study, setting) if published else None
    path = folder or FOLDER / (f"{name}-quick" if quick else name)
    document = _run(name, study, setting, path, workers, quick)
    files = write(name, document, path)
    files += publish(name, study, document, root) if root else []
    if as_json:
        print(json.dumps(document, sort_keys=True))
    tell = complain if as_json else say
    tell(f"Wrote {', '.join(map(str, files))}.")
    for line in comparison(study, document):
        tell(line)
    if root:
        tell(f"Next: make docs, which draws {study.page} from them.")


def _run(
    name: str, study: Study, setting: Setting, path: Path, workers: int | None, quick: bool
) -> dict[str, Any]:
    """Run a study; an interrupt leaves what is done, and says how to go on."""
    command = f"sparring reproduce {name}" + (" --quick" if quick else "")
    try:
        return run_study(
            study, setting, path, command=command, workers=workers, quick=quick, watch=complain
        )
    except KeyboardInterrupt:
        complain(f"Stopped. What is done is kept in {path}; the same command goes on from there.")
        raise typer.Exit(130) from None


def _list(as_json: bool) -> None:
    """Print what there is."""
    rows = [_row(name, load(name)) for name in names()]
    if as_json:
        print(json.dumps(rows))
        return
    console = PlainConsole()
    if not console.is_terminal:
        say("\n".join("\t".join(map(str, row.values())) for row in rows))
        return
    table = Table(*(Column(head, overflow="fold") for head in HEADS), box=SIMPLE)
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)
    console.print("Hours are on two cores. sparring reproduce NAME --quick takes about a minute.")


def _row(name: str, study: Study) -> dict[str, Any]:
    """Return a study's line of the list."""
    cells = len(study.cells(study.setting))
    return dict(zip(HEADS, (name, study.summary, study.page, study.hours, cells), strict=True))

"""sparring reproduce: runs studies, which are in the repository but not in the package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import sparring
from sparring.core.errors import ConfigError

STUDY_FILE = Path("studies") / "common" / "study.py"  # only a checkout with studies has it


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment; without it, all are listed.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Run a short version of about one minute, which checks that every step runs; its "
            "results mean nothing.",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs; default runs/reproduce/NAME, or NAME-quick."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time, one thread each; default one per core."),
    ] = None,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Replace the results in this checkout, from which `make docs` makes the tables "
            "and figures.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results, or the list, as JSON.")
    ] = False,
) -> None:
    """Run the experiments of a page again, on all cores; write results, tables and verdicts."""
    root = str(_find_checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    studies = import_module("studies.common.command")
    if name is None or list_only:
        studies.print_list(as_json)
    else:
        studies.run(name, quick, folder, workers, publish, as_json)


def _find_checkout() -> Path:
    """Return the root of a checkout with studies: this code's, or the current directory."""
    for root in (Path(sparring.__file__).resolve().parents[2], Path.cwd()):
        if (root / STUDY_FILE).is_file():
            return root
    raise ConfigError(
        f"{STUDY_FILE} is not in {Path.cwd()}: studies are not in the installed package. They "
        "are in Sparring's repository: clone it, and write `sparring reproduce NAME` in its folder."
    )

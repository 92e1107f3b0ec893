"""sparring report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import say
from sparring.core.errors import ConfigError
from sparring.report.run_page import write_chart, write_report


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folder; several: seeds of one configuration.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file; default report.html in the run folder.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Also write the main chart to this file.")
    ] = None,
) -> None:
    """Write report.html: a run on one page, to attach to a paper."""
    if len(runs) > 1 and out is None:
        raise ConfigError("A report of several runs needs an output file; write --out FILE.")
    say(f"Wrote {write_report(runs[0], out, runs[1:])}.")
    if svg is not None:
        say(f"Wrote {write_chart(runs[0], svg)}.")

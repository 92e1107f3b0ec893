"""sparring report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import say
from sparring.report.html import write_chart, write_report


def report(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    svg: Annotated[
        Path | None, typer.Option(help="Also write the first chart to this file.")
    ] = None,
) -> None:
    """Write report.html, the curves of a run on one page."""
    say(f"Wrote {write_report(run)}.")
    if svg is not None:
        say(f"Wrote {write_chart(run, svg)}.")

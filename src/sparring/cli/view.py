"""sparring view"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import say
from sparring.view.serve import serve

RUNS = Path("runs")


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, or folders with run folders; default runs/."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Default 7460, or a free port; 0: any free port."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; connections from other machines are plain HTTP."),
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Look at runs in a browser: curves, replays, league and workers, live."""
    serve(runs or [RUNS], host, port, say, browser=browser)

"""sparring scale"""

from __future__ import annotations

import typer

from sparring.cli.scale_chaos import chaos
from sparring.cli.scale_plan import plan, probe

ABOUT = "Run on many workers: measure, plan, and harm them."
app = typer.Typer(help=ABOUT, no_args_is_help=True, add_completion=False)
for command in (probe, plan, chaos):
    app.command(command.__name__)(command)


@app.callback(help=ABOUT)
def scale() -> None:
    """Run on many workers: measure, plan, and harm them."""

"""sparring scale"""

from __future__ import annotations

import typer

from sparring.cli.scale_chaos import chaos

app = typer.Typer(
    help="Harm workers, and see that it changes nothing.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("chaos")(chaos)


@app.callback()
def scale() -> None:
    """Harm workers, and see that it changes nothing."""

"""The command line: one file per verb, no logic in them."""

from __future__ import annotations

import logging
import sys

import typer

from sparring.cli import credit, doctor, evaluate, explain, export, listing, play, report, train
from sparring.errors import SparringError

app = typer.Typer(help="Train, measure and improve language-model agents by letting them play.", no_args_is_help=True, add_completion=False)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("play")(play.play)
app.command("list")(listing.listing)
app.command("explain")(explain.explain)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.add_typer(credit.app, name="credit")


def main() -> None:
    """Run the command line; an error that the user can mend is one line and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        app()
    except SparringError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)

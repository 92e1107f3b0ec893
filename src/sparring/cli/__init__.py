"""The command line: one file per command, no logic in them."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from sparring.cli.text import PlainFormatter, complain, fitted
from sparring.cli.verbs import Verbs, let_go, message_of
from sparring.core import version
from sparring.core.errors import SparringError

app = typer.Typer(
    cls=Verbs,
    help="Train, measure and improve language-model agents by letting them play.",
    no_args_is_help=True,
    add_completion=False,
)


def _version(requested: bool) -> None:
    if requested:
        print(f"sparring {version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train, measure and improve language-model agents by letting them play."""


def main() -> None:
    """Run the command line.

    Any error is one line, with exit code 2 if the user can mend it and 1 if it is ours.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        app()
    except SparringError as error:
        complain(fitted(message_of(error), sys.stderr))
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        complain(fitted(message_of(error), sys.stderr))
        sys.exit(1)
    finally:
        let_go()

"""The command line, with one module per command."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from sparring.cli.text import PlainFormatter, print_stderr, wrap_to_terminal
from sparring.cli.verbs import Verbs, flush_output, message_of
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

    An error is printed in one line. The exit code is 2 if the user can fix it, otherwise 1.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        app()
    except SparringError as error:
        print_stderr(wrap_to_terminal(message_of(error), sys.stderr))
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        print_stderr(wrap_to_terminal(message_of(error), sys.stderr))
        sys.exit(1)
    finally:
        flush_output()

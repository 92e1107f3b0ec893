"""How the command line writes: plain text, never a command to the terminal."""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from sparring.core.foreign_text import shown

ENVIRONMENT = ("--environment", "--game")  # an option, and its old spelling

__all__ = [
    "ENVIRONMENT",
    "PlainFormatter",
    "command",
    "complain",
    "fitted",
    "say",
    "say_rows",
    "shown",
]


def say(text: object, *, file: TextIO | None = None) -> None:
    """Print a text, its control characters escaped.

    Use this wherever a word may be a stranger's.
    """
    print(shown(text), file=file, flush=file is not None)


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def command() -> str:
    """Return how to call this program from where the user is: by its path, if it is not on PATH."""
    called = Path(sys.argv[0])
    on_path = shutil.which("sparring") is not None or called.name != "sparring"
    return "sparring" if on_path else shlex.quote(str(called))


def complain(text: object) -> None:
    """Print a text on the standard error stream, as ``say`` does."""
    say(text, file=sys.stderr)


def fitted(text: str, stream: TextIO) -> str:
    """Return a text broken between words to a terminal's width; elsewhere as it is."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns - 1, 20)
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


class PlainFormatter(logging.Formatter):
    """Formats what is logged, its control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return shown(super().format(record))

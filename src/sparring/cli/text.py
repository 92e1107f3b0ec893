"""Prints text for the command line with escaped control characters."""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from sparring.core.foreign_text import escape_controls

ENVIRONMENT = ("--environment", "--game")  # an option and its old name

__all__ = [
    "ENVIRONMENT",
    "PlainFormatter",
    "command",
    "escape_controls",
    "print_stderr",
    "say",
    "say_rows",
    "wrap_to_terminal",
]


def say(text: object, *, file: TextIO | None = None) -> None:
    """Print a text with escaped control characters, because other people may have written it."""
    print(escape_controls(text), file=file, flush=True)  # a pipe would buffer the lines


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def command() -> str:
    """Return ``sparring``, or the path of this program if ``sparring`` is not on PATH."""
    program = Path(sys.argv[0])
    on_path = shutil.which("sparring") is not None or program.name != "sparring"
    return "sparring" if on_path else shlex.quote(str(program))


def print_stderr(text: object) -> None:
    """Print a text to stderr with escaped control characters."""
    say(text, file=sys.stderr)


def wrap_to_terminal(text: str, stream: TextIO) -> str:
    """Return a text wrapped to the terminal's width; unchanged if the stream is not a terminal."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns - 1, 20)
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


class PlainFormatter(logging.Formatter):
    """Formats log records with escaped control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a log record."""
        return escape_controls(super().format(record))

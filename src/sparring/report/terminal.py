"""The console of the project, which prints plain text, never escape codes or rich's markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from sparring.core.foreign_text import escape_controls


class PlainConsole(Console):
    """A console that prints strings literally: ``[bold]`` as it is, escape codes as ``\\x1b``.

    Colours and boxes come from ``style`` and from tables.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "markup": False, "emoji": False, "highlight": False})

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string for rich with controls escaped; all cells, titles and lines use it."""
        return super().render_str(
            escape_controls(text), **{**options, "markup": False, "emoji": False}
        )

"""A console of rich that prints texts literally, without markup and escape codes."""

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
        """Return a string with escaped controls; rich calls this for all cells and lines."""
        return super().render_str(
            escape_controls(text), **{**options, "markup": False, "emoji": False}
        )

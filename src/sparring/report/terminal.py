"""The one console of the project.

What is printed on it is plain text, never a command or rich's markup.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from sparring.core.foreign_text import escape_controls


class PlainConsole(Console):
    """A console on which strings are data.

    ``[bold]`` is printed as it is, and escape codes as ``\\x1b``.

    Colours and boxes come from ``style`` and from tables; both stay as they are.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "markup": False, "emoji": False, "highlight": False})

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as rich draws it, controls escaped.

        Cells, titles and lines all come through here.
        """
        return super().render_str(
            escape_controls(text), **{**options, "markup": False, "emoji": False}
        )

"""The shell of a page that needs nothing else, and the text of strangers as it may show it.

Nothing in a page can run: it has no script, and its policy forbids every source but its own style.
Pages are the templates in the folder ``templates``. Jinja escapes every value in them.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from sparring.core.foreign_text import HIDDEN, JOINERS, KEPT, shown

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
_MARK = Markup('<span class="mark">U+{:04X}</span>')


def document(template: str, title: str, **values: Any) -> bytes:
    """Return a whole page.

    Args:
        template: a file of the folder ``templates``.
        title: of the window.
        values: what the template names.
    """
    policy = (
        f"default-src 'none'; style-src {allowed(style())}; base-uri 'none'; form-action 'none'"
    )
    shell = {"title": shown(title, lines=False), "policy": Markup(policy), "style": Markup(style())}
    text = templates().get_template(template).render(shell | values)
    return text.encode("utf-8", "backslashreplace")


@cache
def templates() -> Environment:
    """Return the templates of pages, in which every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=_with_marks,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _with_marks(value: Any) -> Any:
    return marked(value) if isinstance(value, str) and not value.isprintable() else value


def marked(text: object) -> Markup:
    """Return a text as markup, each character that would not be seen as a mark with its number.

    Those are controls, formats such as turned writing, halves of pairs and separators. Marks keep
    the direction of the page, also for the text around them.
    """
    if isinstance(text, Markup):
        return text
    text = str(text)
    if text.isprintable():
        return escape(text)
    return Markup("").join(
        _MARK.format(ord(character)) if _is_hidden(character) else character for character in text
    )


def _is_hidden(character: str) -> bool:
    return character not in KEPT + JOINERS and unicodedata.category(character) in HIDDEN


@cache
def style() -> str:
    """Return the style of the page."""
    return (FOLDER / "report.css").read_text(encoding="utf-8")


def allowed(text: str) -> str:
    """Return the source by which a content security policy allows an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

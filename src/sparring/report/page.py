"""The shell of a page that needs nothing else, and the text of strangers as it may show it.

Nothing in a page can run: it has no script, and its policy forbids every source but its own style.
"""

from __future__ import annotations

import base64
import hashlib
import html
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from sparring.report.svg import safe
from sparring.system.text import HIDDEN, JOINERS, KEPT

LONGEST = 1_200  # characters of a text of a play; the rest is counted


def marked(text: object) -> str:
    """Return a text as markup, each character that would not be seen as a mark with its number.

    Those are controls, formats such as turned writing, halves of pairs, separators. The marks and
    what is around them stay in the direction of the page.
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return html.escape(text)
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    """Return a character as markup."""
    if character in KEPT or character in JOINERS or unicodedata.category(character) not in HIDDEN:
        return html.escape(character)
    return f'<span class="mark">U+{ord(character):04X}</span>'


def quoted_text(text: str, longest: int = LONGEST) -> str:
    """Return what somebody said or was told: apart from what is around it, cut where it is long."""
    rest = len(text) - longest
    more = f'<span class="mark">and {rest:,} more characters</span>' if rest > 0 else ""
    return f"<bdi>{marked(text[:longest])}</bdi>{more}"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    *,
    tight: bool = False,
) -> str:
    """Return a table of plain texts; the first cell of a row is what it is about.

    Args:
        head: names of the columns.
        rows: the cells of each.
        caption: a word on all of it.
        tight: whether a cell stays on one line.
    """
    titles = "".join(f'<th scope="col">{marked(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        + f'<th scope="row">{marked(first)}</th>'
        + "".join(f"<td>{marked(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    told = f"<caption>{marked(caption)}</caption>" if caption else ""
    kind = ' class="tight"' if tight else ""
    return (
        f'<div class="wide" tabindex="0"><table{kind}>{told}<thead><tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, body: str) -> str:
    """Return a part that opens on a click; printed, it is open."""
    return f"<details><summary>{marked(summary)}</summary>{body}</details>"


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with a heading that can be linked to; nothing where it has no parts."""
    body = "".join(parts)
    return f'<section id="{name}"><h2>{marked(title)}</h2>{body}</section>' if body else ""


def paragraphs(lines: Iterable[str]) -> str:
    """Return a paragraph per line."""
    return "".join(f"<p>{marked(line)}</p>" for line in lines)


@cache
def style() -> str:
    """Return the style of the page."""
    return Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def allowed(text: str) -> str:
    """Return the source by which a content security policy allows an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def document(title: str, body: str) -> bytes:
    """Return a whole page.

    Args:
        title: of the window, as text.
        body: markup.
    """
    policy = (
        f"default-src 'none'; style-src {allowed(style())}; base-uri 'none'; form-action 'none'"
    )
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{safe(title)}</title><style>{style()}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )
    return page.encode("utf-8", "backslashreplace")

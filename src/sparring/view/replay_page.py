"""A replay as one HTML file that can be mailed: script, style and data inside, nothing fetched."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.core import version
from sparring.report.page import allowed
from sparring.view.answers import Refused, json_bytes
from sparring.view.boards import Picture

STATIC = Path(__file__).parent / "static"
SCRIPTS, STYLES = "export.list", "export_css.list"  # names of files of STATIC, in their order
_IMPORT = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |let |function |class ))", re.MULTILINE)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(episode: Mapping[str, Any], boards: Mapping[int, Picture]) -> bytes:
    """Return the page of a replay.

    Args:
        episode: as the page asks for it; of one seat's view it holds that alone.
        boards: pictures by the number of the turn.

    Raises:
        Refused: the page's script is not here.
    """
    data = {"episode": episode, "boards": boards, "made_by": f"sparring {version()}"}
    script, style = _script(), _style()
    policy = (
        f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = html.escape(f"{episode['game']}, episode {episode['episode']}")
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style>"
    )
    body = (
        f'<main id="main"></main><script type="application/json" id="replay">{embedded(data)}'
        f"</script><script>{script}</script>"
    )
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
    return text.encode("utf-8")


def embedded(data: Any) -> str:
    """Return data as JSON that can stand in a script element: it cannot end it."""
    text = json_bytes(data).decode("ascii")
    return re.sub("[<>&]", lambda found: _ESCAPES[found[0]], text)


def _script() -> str:
    """Return the modules of the page as one classic script, in a scope of their own."""
    parts = [_EXPORT.sub("", _IMPORT.sub("", text)) for text in _listed(SCRIPTS)]
    return _checked('(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();\n", "script")


def _style() -> str:
    """Return the style sheets of the page as one."""
    return _checked("\n".join(_listed(STYLES)), "style")


def _listed(name: str) -> list[str]:
    """Return the texts of the files that a list names, one a line.

    Raises:
        Refused: the list or a file is not here.
    """
    try:
        names = (STATIC / name).read_text(encoding="utf-8").split()
        return [(STATIC / Path(part).name).read_text(encoding="utf-8") for part in names]
    except OSError as error:
        raise Refused(404, f"{Path(error.filename).name} is not installed") from None


def _checked(text: str, element: str) -> str:
    """Return a text that does not end the element it stands in.

    Raises:
        ValueError: it would.
    """
    if f"</{element}" in text.lower() or "<!--" in text:
        raise ValueError(f"the exported {element} would end its own element")
    return text

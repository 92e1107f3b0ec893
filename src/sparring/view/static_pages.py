"""The page of the viewer, with links to the modules of a view, and a replay as one HTML file.

A browser finds modules level by level, as it reads what each of them imports. The links name them
all at once. They are read off the modules, so that no list has to be kept.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.core import version
from sparring.report.run_page import allowed
from sparring.view.http_requests import Refused, json_bytes
from sparring.view.position_pictures import Picture
from sparring.view.run_files import read_from

STATIC = Path(__file__).parent / "static"
AHEAD, MAIN = "ahead.js", "main.js"  # what the page itself runs: the first asks for data
FIRST_VIEW = "runs"
MARK = "<!-- modules -->"  # in index.html: where the links stand
_IMPORT = re.compile(r"""^(?:import|export)\b[^;"']*["']\./([\w./-]+)["'];""", re.MULTILINE)
_VIEW = re.compile(r"""(\w+): \{[^{}]*import\("\./([\w.-]+)"\)""")


def shell(asked: Mapping[str, str]) -> bytes:
    """Return the page for an address.

    Args:
        asked: its query; ``view`` names the view.

    Raises:
        OSError: a file of the page is not there.
    """
    links = (
        f'<link rel="modulepreload" href="/static/{name}" />'
        for name in modules(asked.get("view", FIRST_VIEW))
    )
    return _text("index.html").replace(MARK, "\n    ".join(links)).encode()


def modules(view: str) -> tuple[str, ...]:
    """Return the modules that a view needs, those first that others wait for.

    Args:
        view: its name in main.js; any other text stands for the table of runs.

    Raises:
        OSError: a file of the page is not there.
    """
    known = views()
    level = [AHEAD, MAIN, known.get(view, known[FIRST_VIEW])]
    names = dict.fromkeys(level)
    while level:
        level = [name for module in level for name in _IMPORT.findall(_text(module))]
        level = [name for name in dict.fromkeys(level) if name not in names]
        names.update(dict.fromkeys(level))
    return tuple(names)


def views() -> dict[str, str]:
    """Return the module of each view, as main.js loads it."""
    return dict(_VIEW.findall(_text(MAIN)))


def _text(name: str) -> str:
    return read_from(STATIC / name, 0)[0].decode()


SCRIPTS, STYLES = "export.list", "export_css.list"  # names of files of STATIC, in their order
_IMPORT_LINE = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |let |function |class ))", re.MULTILINE)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def replay_page(episode: Mapping[str, Any], boards: Mapping[int, Picture]) -> bytes:
    """Return the page of a replay.

    Args:
        episode: as the page asks for it; of one seat's view it holds that alone.
        boards: pictures by the number of the turn.

    Raises:
        Refused: the page's script is not here.
    """
    data = {"episode": episode, "boards": boards, "made_by": f"sparring {version()}"}
    parts = [_EXPORT.sub("", _IMPORT_LINE.sub("", text)) for text in _listed(SCRIPTS)]
    # one classic script, in a scope of its own
    script = _checked('(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();\n", "script")
    style = _checked("\n".join(_listed(STYLES)), "style")
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


def _listed(name: str) -> list[str]:
    try:
        names = (STATIC / name).read_text(encoding="utf-8").split()
        return [(STATIC / Path(part).name).read_text(encoding="utf-8") for part in names]
    except OSError as error:
        raise Refused(404, f"{Path(error.filename).name} is not installed") from None


def _checked(text: str, element: str) -> str:
    if f"</{element}" in text.lower() or "<!--" in text:
        raise ValueError(f"the exported {element} would end its own element")
    return text

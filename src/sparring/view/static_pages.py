"""The page of the viewer with links to its JavaScript modules, and a replay as one HTML file.

Without these links a browser would find each module only in the imports of the previous module.
The links are computed from the imports, so that a browser loads all modules at once.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.core import version
from sparring.report.run_page import csp_source
from sparring.view.http_requests import RequestError, json_bytes
from sparring.view.position_pictures import Picture
from sparring.view.run_files import read_regular_file

STATIC = Path(__file__).parent / "static"
AHEAD, MAIN = "ahead.js", "main.js"  # scripts in index.html; ahead.js requests the first data
FIRST_VIEW = "runs"
MARK = "<!-- modules -->"  # place of the links in index.html
_IMPORT = re.compile(r"""^(?:import|export)\b[^;"']*["']\./([\w./-]+)["'];""", re.MULTILINE)
_VIEW = re.compile(r"""(\w+): \{[^{}]*import\("\./([\w.-]+)"\)""")


def app_page(params: Mapping[str, str]) -> bytes:
    """Return the page of the viewer.

    Args:
        params: query parameters of the address; ``view`` is the view that opens first.

    Raises:
        OSError: a file of the page is missing.
    """
    links = (
        f'<link rel="modulepreload" href="/static/{name}" />'
        for name in modules(params.get("view", FIRST_VIEW))
    )
    return _text("index.html").replace(MARK, "\n    ".join(links)).encode()


def modules(view: str) -> tuple[str, ...]:
    """Return the file names of a view's JavaScript modules, in the order of loading.

    Args:
        view: a name in main.js; any other text means the table of runs.

    Raises:
        OSError: a file of the page is missing.
    """
    view_modules = views()
    new_names = [AHEAD, MAIN, view_modules.get(view, view_modules[FIRST_VIEW])]
    names = dict.fromkeys(new_names)
    while new_names:
        new_names = [name for module in new_names for name in _IMPORT.findall(_text(module))]
        new_names = [name for name in dict.fromkeys(new_names) if name not in names]
        names.update(dict.fromkeys(new_names))
    return tuple(names)


def views() -> dict[str, str]:
    """Return the module of each view in main.js."""
    return dict(_VIEW.findall(_text(MAIN)))


def _text(name: str) -> str:
    return read_regular_file(STATIC / name, 0)[0].decode()


SCRIPTS, STYLES = "export.list", "export_css.list"  # lists of files in STATIC
_IMPORT_LINE = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |let |function |class ))", re.MULTILINE)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def replay_page(episode: Mapping[str, Any], boards: Mapping[int, Picture]) -> bytes:
    """Return the page of a replay.

    Args:
        episode: result of ``Replays.show``, for all seats or for one.
        boards: pictures by turn number.

    Raises:
        RequestError: the page's script is missing.
    """
    data = {"episode": episode, "boards": boards, "made_by": f"sparring {version()}"}
    parts = [_EXPORT.sub("", _IMPORT_LINE.sub("", text)) for text in _read_listed(SCRIPTS)]
    # all parts become one classic script, whose names are not global
    script = _check_element('(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();\n", "script")
    style = _check_element("\n".join(_read_listed(STYLES)), "style")
    content_policy = (
        f"default-src 'none'; script-src {csp_source(script)}; style-src {csp_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = html.escape(f"{episode['game']}, episode {episode['episode']}")
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style>"
    )
    body = (
        f'<main id="main"></main><script type="application/json" id="replay">{script_json(data)}'
        f"</script><script>{script}</script>"
    )
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
    return text.encode("utf-8")


def script_json(data: Any) -> str:
    """Return data as JSON that is safe inside a script element."""
    text = json_bytes(data).decode("ascii")
    return re.sub("[<>&]", lambda match: _ESCAPES[match[0]], text)


def _read_listed(name: str) -> list[str]:
    try:
        names = (STATIC / name).read_text(encoding="utf-8").split()
        return [(STATIC / Path(part).name).read_text(encoding="utf-8") for part in names]
    except OSError as error:
        raise RequestError(404, f"{Path(error.filename).name} is not installed") from None


def _check_element(text: str, element: str) -> str:
    if f"</{element}" in text.lower() or "<!--" in text:
        raise ValueError(f"the exported {element} contains its own end tag")
    return text

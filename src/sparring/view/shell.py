"""The page itself, with links to all modules that the view of an address needs.

A browser finds modules level by level, as it reads what each of them imports. The links name them
all at once. They are read off the modules, so that no list has to be kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparring.view.plain_files import read_from
from sparring.view.replay_page import STATIC

AHEAD, MAIN = "ahead.js", "main.js"  # what the page itself runs: the first asks for data
FIRST_VIEW = "runs"
MARK = "<!-- modules -->"  # in index.html: where the links stand
_IMPORT = re.compile(r"""^(?:import|export)\b[^;"']*["']\./([\w./-]+)["'];""", re.MULTILINE)
_VIEW = re.compile(r"""(\w+): \{[^{}]*import\("\./([\w.-]+)"\)""")


def page(asked: Mapping[str, str]) -> bytes:
    """Return the page for an address.

    Args:
        asked: its query; ``view`` names the view.

    Raises:
        OSError: a file of the page is not there.
    """
    shell = _text("index.html")
    links = (
        f'<link rel="modulepreload" href="/static/{name}" />'
        for name in modules(asked.get("view", FIRST_VIEW))
    )
    return shell.replace(MARK, "\n    ".join(links)).encode()


def modules(view: str) -> tuple[str, ...]:
    """Return the modules that a view needs, those first that others wait for.

    Args:
        view: its name in main.js; any other text stands for the table of runs.

    Raises:
        OSError: a file of the page is not there.
    """
    known = views()
    return _needed((AHEAD, MAIN, known.get(view, known[FIRST_VIEW])))


def views() -> dict[str, str]:
    """Return the module of each view, as main.js loads it."""
    return dict(_VIEW.findall(_text(MAIN)))


def _needed(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return modules and all that they import, level by level."""
    found = dict.fromkeys(roots)
    level = list(roots)
    while level:
        level = [name for one in level for name in _IMPORT.findall(_text(one))]
        level = [name for name in dict.fromkeys(level) if name not in found]
        found.update(dict.fromkeys(level))
    return tuple(found)


def _text(name: str) -> str:
    """Return a file of the page."""
    return read_from(STATIC / name, 0)[0].decode()

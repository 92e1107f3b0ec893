"""Names that become parts of paths, of metrics and of tables.

What may be in them is said here, once.

Each function returns the name, or raises ValueError with a clause that says what to write; the
caller says where.
"""

from __future__ import annotations

import re

LONGEST = 100
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=,+ -]*")  # of a path


def file_name(name: object) -> str:
    """Return the name of one file in a folder of ours.

    Letters, digits and ``. _ -``, nothing that leads elsewhere.
    """
    if not isinstance(name, str) or len(name) > LONGEST or not _FILE.fullmatch(name):
        text = repr(name)
        given = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        raise ValueError(
            f"{given} is no name of a file: letters, digits and . _ - make one, at most {LONGEST}"
        )
    return name


def label(name: str) -> str:
    """Return a name that stands in metrics and tables, such as ``hanabi_simple``.

    ``/`` would end it there.
    """
    if len(name) > LONGEST or not _LABEL.fullmatch(name):
        raise ValueError(
            "a name in metrics and tables: write letters, digits and . _ - + : =, at "
            f"most {LONGEST}"
        )
    return name


def path_name(name: str) -> str:
    """Return a name that becomes a path below a folder, such as ``mars/kuhn-smol``.

    It never leads out of it.
    """
    if len(name) > LONGEST or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise ValueError(
            "the name becomes a folder below runs/: write letters, digits and . _ -, with / "
            f"between folders, none of which begins with a dot, at most {LONGEST} characters"
        )
    return name

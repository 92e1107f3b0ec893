"""Records, errors, names, random streams, schedules, files and processes."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version("sparring")
    except metadata.PackageNotFoundError:
        return "0+source"  # imported from source, not installed

"""Where a run's figures come from, as its folder says."""

from __future__ import annotations

from typing import Any

from sparring.run.provenance import PROVENANCE, starts_in
from sparring.view.plain_files import read_from
from sparring.view.runs import Run


def starts(run: Run) -> list[dict[str, Any]]:
    """Return each start of a run: command, commit, machine, versions; nothing if unknown."""
    try:
        return starts_in(read_from(run.path / PROVENANCE, 0)[0])
    except OSError:
        return []

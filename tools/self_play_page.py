"""docs/self-play.md, from its file in benchmarks/results."""

from __future__ import annotations

import measured

from studies.self_play import tables as self_play

PAGE = measured.ROOT / "docs" / "self-play.md"


def page() -> str:
    """Return the page of tabular self-play."""
    return self_play.page(measured.results("self-play"))

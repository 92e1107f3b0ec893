"""docs/credit-lab.md and docs/credit-race.md, from their files in benchmarks/results."""

from __future__ import annotations

import measured

from studies.credit_lab import tables as credit_lab
from studies.credit_race import tables as credit_race

LAB, RACE = measured.ROOT / "docs" / "credit-lab.md", measured.ROOT / "docs" / "credit-race.md"


def lab_page() -> str:
    """Return the page of the lab."""
    return credit_lab.page(measured.results("credit-lab"))


def race_page() -> str:
    """Return the page of the race."""
    return credit_race.page(measured.results("credit-race"))

"""The table of docs/bridges.md on games of other libraries."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from statistics import median

from studies.common.result_figures import Maker, Results, markdown, seeds_of

GOAL = 0.9  # wins and draws against the random player
Z = 1.96


def interval(rate: float, count: int) -> tuple[float, float]:
    """Return the Wilson interval of a rate at 95 %."""
    centre = (rate + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z * sqrt(rate * (1 - rate) / count + Z * Z / (4 * count * count)) / (1 + Z * Z / count)
    return centre - half, centre + half


def table(results: Results) -> str:
    """Return wins and draws against the random player, by recipe and seed."""
    lines, reached = [], 0
    for row in results.rows():
        for seed in seeds_of(row, "first seat"):
            rates = [row["values"][f"{seat} seat"][seed] for seat in ("first", "second")]
            mean, count = sum(rates) / 2, 2 * row["episodes"]
            reached += mean >= GOAL
            low, high = interval(mean, count)
            lines.append(
                [
                    f"`{row['recipe']}`",
                    seed,
                    *(f"{rate:.3f}" for rate in rates),
                    f"{mean:.3f} ({low:.3f} to {high:.3f})",
                    f"{row['values']['legal replies'][seed]:.1%}",
                    f"{row['values']['seconds'][seed]:.0f}",
                ]
            )
    heads = ["recipe", "seed", "first seat", "second seat", "both (95 %)", "legal", "s"]
    verdict = f"{reached} of {len(lines)} runs win or draw at least {GOAL:.0%} of the episodes."
    return f"{markdown(heads, lines)}\n\n{verdict}"


def table_of_checks(results: Results) -> str:
    """Return how many environments of each library conform, from the files of `bridge check`."""
    lines = []
    for path in sorted(Path(__file__).parent.glob("check-*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))
        conforming = [row for row in rows if row["conforms"]]
        speed = median(row["turns_per_second"] for row in conforming)
        name = path.stem.removeprefix("check-")
        lines.append([f"`{name}`", f"{len(rows)}", f"{len(conforming)}", f"{speed:,.0f}"])
    return markdown(["library", "tried", "conform", "turns/s, median"], lines)


MARKERS: dict[str, Maker] = {"bridges learned": table, "bridges checked": table_of_checks}
SECTIONS = {"What the tiny model learned": table, "What conforms": table_of_checks}

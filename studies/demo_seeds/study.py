"""Does a recipe learn with every seed? Recipes with an exact figure, over many seeds.

The results per seed are the last NashConv, the first step with a NashConv at or below the recipe's
level, the worst NashConv from that step on, the share of legal replies in the last step, and the
seconds of training on one thread of a machine that may be busy. Cells are ordered by seed.

The column `starts` is "all", as NashConv covers every deal.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from studies.common.study import Setting, Study

LEVELS = {"demo": 0.10, "leduc-tiny": 1.0}  # goal: every seed ends at this NashConv or below
DEFAULT_LEVEL = 0.10  # goal of other recipes


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    max_seeds = max(count for _, count in setting["recipes"])
    return [
        training_cell(
            (recipe, seed),
            f"{recipe}-{seed}",
            recipe,
            [f"seed={seed}", "threads=1", *setting["changes"]],
            partial(run_figures, level=LEVELS.get(recipe, DEFAULT_LEVEL)),
        )
        for seed in range(max_seeds)
        for recipe, count in setting["recipes"]
        if seed < count
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand, *, level: float) -> dict[str, Any]:
    """Return the figures of a run."""
    lines = metrics(run)
    name = next(key for line in lines for key in line if key.startswith("nash_conv/"))
    points = [(line["step"], line[name]) for line in lines if name in line]
    first = next((step for step, value in points if value <= level), None)
    later_values = [value for step, value in points if first is not None and step >= first]
    return {
        "nash_conv": points[-1][1],
        "worst from the level on": max(later_values, default=None),
        "first step at the level": first,
        "legal replies": lines[-1]["legal_rate"],
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per recipe, with the value of each seed."""

    def labels(recipe: str) -> Row:
        return {"recipe": recipe, "level": LEVELS.get(recipe, DEFAULT_LEVEL), "starts": "all"}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="`demo` with 30 seeds and `leduc-tiny` with 10: does every seed learn?",
    page="benchmarks/README.md",
    hours=1.7,
    setting={"recipes": [["demo", 30], ["leduc-tiny", 10]], "changes": []},
    quick={"recipes": [["demo", 1]], "changes": ["steps=2"]},
    cells=cells,
    rows=rows,
)

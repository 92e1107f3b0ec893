"""What does it cost to learn from games of older weights? One recipe with lag 0, 1 and 4.

The results per seed are NashConv at every evaluation, its last value and its mean over the run, and
the share of legal replies in the last step.

The column `starts` is "all", as NashConv covers every deal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from sparring.run.folder import RunFolder
from studies.common.study import Setting, Study

RECIPE, GAME = "kuhn-tiny", "kuhn_poker"
AFTER = "NashConv after "  # followed by the number of training games


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        training_cell(
            (lag, seed),
            f"lag{lag}-{seed}",
            RECIPE,
            [f"seed={seed}", "threads=1", f"scale.lag={lag}", *setting["changes"]],
            run_figures,
        )
        for seed in range(setting["seeds"])
        for lag in setting["lags"]
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the figures of a run."""
    lines, name = metrics(run), f"nash_conv/{GAME}"
    games = _games_per_step(run)
    points = [(line["step"] * games, line[name]) for line in lines if name in line]
    return {
        "NashConv, end": points[-1][1],
        "NashConv, mean": sum(value for _, value in points) / len(points),
        "legal replies": lines[-1]["legal_rate"],
        "ratio_p99": sum(line["ratio_p99"] for line in lines) / len(lines),
        **{f"{AFTER}{plays}": value for plays, value in points},
    }


def _games_per_step(run: Path) -> int:
    """Return the number of games of a step."""
    return int(RunFolder.open(run).config()["rollout"]["games_per_step"])


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per lag, with the values of each seed."""

    def labels(lag: int) -> Row:
        return {"lag": lag, "starts": "all"}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="`kuhn-tiny` trained with a staleness of 0, 1 and 4 steps, 5 seeds",
    page="benchmarks/scale.md",
    hours=0.6,
    setting={"lags": [0, 1, 4], "seeds": 5, "changes": []},
    quick={"lags": [0, 2], "seeds": 1, "changes": ["steps=4", "rollout.games_per_step=64"]},
    cells=cells,
    rows=rows,
)

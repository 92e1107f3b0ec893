"""Does advantage alignment lead to cooperation that punishes, where naive learners defect?

The game is the prisoner's dilemma over 20 rounds; players do not see how many rounds are left. The
results per seed are the figures of ``studies.dilemma.rounds``, and the points per round in
training.

The column `starts` is "all": there is one initial state.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, seed_rows, training_cell
from sparring.core.files import parse_json
from studies.common.rounds_along import points_along
from studies.common.study import Setting, Study

MODULE = "studies.dilemma.rounds"
ROUNDS_FILE = "rounds.json"
NAIVE, ALIGNED = "naive", "alignment"
ARMS = {NAIVE: "dilemma/naive-tiny", ALIGNED: "dilemma/alignment-tiny"}
NO_OPPONENTS = "evaluation.opponents=[]"  # the study plays its own, longer matches


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        training_cell(
            (arm, seed),
            f"{arm}-{seed}",
            ARMS[arm],
            [f"seed={seed}", "threads=1", NO_OPPONENTS, *setting["changes"]],
            partial(run_figures, plays=setting["plays"]),
        )
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand, *, plays: int) -> dict[str, Any]:
    """Return the figures of a run.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs the command which plays the measured episodes.
        plays: see ``studies.dilemma.rounds.figures``.
    """
    inputs = json.dumps({"run": str(run), "plays": plays})
    run_command(["python", "-m", MODULE, inputs, str(run / ROUNDS_FILE)])
    along = points_along(run, "repeated_dilemma", ("row", "column"))
    return {**parse_json((run / ROUNDS_FILE).read_bytes()), **along}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm, with the values of each seed."""

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": "all", "plays": setting["plays"]}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="advantage alignment and naive learners in a dilemma of 20 rounds, 5 seeds",
    page="docs/mixed-motive.md",
    hours=0.3,
    setting={"seeds": 5, "arms": list(ARMS), "plays": 256, "changes": []},
    quick={
        "seeds": 1,
        "plays": 8,
        "changes": [
            "steps=10",
            "warmup.updates=2",
            "rollout.games_per_step=8",
            "rollout.group_size=8",
        ],
    },
    cells=cells,
    rows=rows,
)

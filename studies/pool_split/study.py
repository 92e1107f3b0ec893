"""Do aligned learners leave each other the items that they value little, while naive ones take all?

An episode has ten pools with private, opposed values; items that both claim are shared. The results
per seed are the figures of ``studies.pool_split.rounds`` for both learners, also against each
other, and the points per round in training.

The column `starts` is "unseen": only rounds count whose pool and values do not occur in training.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, seed_rows, training_cell
from sparring.core.files import parse_json
from sparring.environments.pool_split import ROLES
from studies.common.rounds_along import points_along
from studies.common.study import Setting, Study

MODULE = "studies.pool_split.rounds"
ROUNDS_FILE = "rounds.json"
RECIPE = "pool_split-tiny"
NAIVE, ALIGNED = "naive", "alignment"
ARMS = {NAIVE: ["credit.beta=0"], ALIGNED: []}
NO_OPPONENTS = "evaluation.opponents=[]"  # the study plays its own, longer matches
SECONDS = "seconds"


def overrides_of_arm(arm: str, seed: int, setting: Setting) -> list[str]:
    """Return the changes to the recipe of an arm's run."""
    return [f"seed={seed}", "threads=1", NO_OPPONENTS, *ARMS[arm], *setting["changes"]]


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: one cell trains both learners of a seed, which play each other."""
    return [
        training_cell(
            (seed,),
            f"{NAIVE}-{seed}",
            RECIPE,
            overrides_of_arm(NAIVE, seed, setting),
            partial(run_figures, seed=seed, setting=setting),
        )
        for seed in range(setting["seeds"])
    ]


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, seed: int, setting: Setting
) -> dict[str, dict[str, Any]]:
    """Return the figures of both learners, after training the aligned one.

    Args:
        run: folder of the naive learner's run.
        stdout: standard output of training.
        run_command: function that trains the aligned learner and plays the measured episodes.
        seed: seed of both learners.
        setting: setting of the study.
    """
    start_time, aligned_run = time.perf_counter(), run.with_name(f"{ALIGNED}-{seed}")
    words = ["sparring", "train", RECIPE, *overrides_of_arm(ALIGNED, seed, setting)]
    run_command([*words, "--run", str(aligned_run), "--overwrite"])
    seconds = round(time.perf_counter() - start_time, 1)
    runs = {NAIVE: run, ALIGNED: aligned_run}
    inputs = {
        "runs": {arm: str(run_of_arm) for arm, run_of_arm in runs.items()},
        "plays": setting["plays"],
    }
    run_command(["python", "-m", MODULE, json.dumps(inputs), str(run / ROUNDS_FILE)])
    figures = parse_json((run / ROUNDS_FILE).read_bytes())
    by_arm = {
        arm: {**figures[arm], **points_along(run_of_arm, "repeated", ROLES)}
        for arm, run_of_arm in runs.items()
    }
    return {**by_arm, ALIGNED: {**by_arm[ALIGNED], SECONDS: seconds}}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per learner, with the values of each seed."""
    records_by_arm = {
        (arm, seed): {**record, SECONDS: record["found"][arm].get(SECONDS, record[SECONDS])}
        | {"found": record["found"][arm]}
        for arm in ARMS
        for (seed,), record in records.items()
    }

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": "unseen", "plays": setting["plays"]}

    return seed_rows(records_by_arm, labels, dict)


STUDY = Study(
    summary="aligned and naive learners that divide items of opposed values, 5 seeds",
    page="docs/mixed-motive.md",
    hours=0.4,
    setting={"seeds": 5, "plays": 128, "changes": []},
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

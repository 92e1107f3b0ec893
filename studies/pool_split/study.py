"""Do aligned learners leave to each other what is worth little to them, where naive ones take all?

Pools of private, opposed values, ten in a row; what both name is shared. Kept per seed: figures of
``studies.pool_split.rounds`` for both learners, also against each other, and of every step's plays
the points a round.

Starts are "unseen": only rounds are counted whose pool and values training never met.
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
FOUND = "rounds.json"
RECIPE = "pool_split-tiny"
NAIVE, ALIGNED = "naive", "alignment"
ARMS = {NAIVE: ["credit.beta=0"], ALIGNED: []}
MATCH = "evaluation.opponents=[]"  # measured here with more plays
SECONDS = "seconds"


def changes(arm: str, seed: int, setting: Setting) -> list[str]:
    """Return the changes to the recipe of an arm's run."""
    return [f"seed={seed}", "threads=1", MATCH, *ARMS[arm], *setting["changes"]]


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: both learners of a seed, as they are measured against each other."""
    return [
        training_cell(
            (seed,),
            f"{NAIVE}-{seed}",
            RECIPE,
            changes(NAIVE, seed, setting),
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
        run_command: trains the aligned learner and runs the plays that are measured.
        seed: of both.
        setting: of the study.
    """
    began, aligned = time.perf_counter(), run.with_name(f"{ALIGNED}-{seed}")
    words = ["sparring", "train", RECIPE, *changes(ALIGNED, seed, setting)]
    run_command([*words, "--run", str(aligned), "--overwrite"])
    seconds = round(time.perf_counter() - began, 1)
    runs = {NAIVE: run, ALIGNED: aligned}
    inputs = {
        "runs": {arm: str(run_of_arm) for arm, run_of_arm in runs.items()},
        "plays": setting["plays"],
    }
    run_command(["python", "-m", MODULE, json.dumps(inputs), str(run / FOUND)])
    figures = parse_json((run / FOUND).read_bytes())
    by_arm = {
        arm: {**figures[arm], **points_along(run_of_arm, "repeated", ROLES)}
        for arm, run_of_arm in runs.items()
    }
    return {**by_arm, ALIGNED: {**by_arm[ALIGNED], SECONDS: seconds}}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per learner, with the values of each seed."""
    apart = {
        (arm, seed): {**record, SECONDS: record["found"][arm].get(SECONDS, record[SECONDS])}
        | {"found": record["found"][arm]}
        for arm in ARMS
        for (seed,), record in records.items()
    }

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": "unseen", "plays": setting["plays"]}

    return seed_rows(apart, labels, dict)


STUDY = Study(
    summary="aligned and naive learners that split pools of opposed values, 5 seeds",
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

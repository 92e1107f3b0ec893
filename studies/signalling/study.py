"""Does a team learn more if both of its policies are trained? Two tiny models in signalling.

The results per seed are the exact value of the team at the end, that of the best team, and the
share of legal replies in the last step.

The column `starts` is "all", as the value covers every colour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from studies.common.study import Setting, Study

Frozen = Callable[[str], str]
"""Gives the change by which a policy does not learn."""

TRAINED = {
    "both": None,
    "the leader": "helper",
    "the helper": "leader",
}  # trained policies -> the policy that is not trained


def freeze_override(policy: str) -> str:
    """Return the override that freezes a policy at its initial weights."""
    return f"policies.{policy}.frozen=true"


def cells(recipe: str, stays: Frozen, setting: Setting) -> list[Cell]:
    """Return the cells of a recipe with both policies or one policy trained, ordered by seed."""
    return [
        training_cell(
            (trained, seed),
            f"{recipe} {trained} {seed}",
            recipe,
            [*([stays(other)] if other else []), f"seed={seed}", "threads=1", *setting["changes"]],
            run_figures,
        )
        for seed in range(setting["seeds"])
        for trained, other in TRAINED.items()
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the figures of a run."""
    words = ["sparring", "evaluate", str(run), "--games", "2", "--json"]
    figures = json.loads(run_command(words))["figures"]
    value = figures["value/signalling/sender"]
    return {
        "value": value,
        "best value": value + figures["optimality_gap/signalling"],
        "legal replies": metrics(run)[-1]["legal_rate"],
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per set of trained policies, with the value of each seed."""

    def labels(trained: str) -> Row:
        return {"trained": trained, "starts": "all"}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="a team of two policies of the tiny model: one of them trained, and both, 5 seeds",
    page="docs/policies.md",
    hours=0.2,
    setting={"seeds": 5, "changes": []},
    quick={"seeds": 1, "changes": ["steps=2", "warmup.updates=1", "rollout.games_per_step=16"]},
    cells=partial(cells, "signalling-tiny", freeze_override),
    rows=rows,
)

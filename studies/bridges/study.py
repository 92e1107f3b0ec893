"""Does the tiny model learn games of other libraries? Two games, three seeds.

Each run trains against itself, its snapshots and a random player. The results per seed are the
shares of wins and draws against the random player over 200 episodes in each seat, with the EMA
weights, at the end of training. Both games always begin with the empty board, so there is no unseen
initial state; the random player makes the positions differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from studies.common.study import Setting, Study

EPISODES = 200  # in each seat


def cells(setting: Setting) -> list[Cell]:
    """Return one cell for each recipe and seed."""
    return [
        training_cell(
            (recipe, seed),
            f"{recipe}-{seed}",
            recipe,
            [f"seed={seed}", "threads=1", *setting["changes"]],
            run_figures,
        )
        for recipe in setting["recipes"]
        for seed in range(setting["seeds"])
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the figures of a run."""
    last = metrics(run)[-1]
    rates = {}
    for name, value in last.items():
        if name.startswith("match/") and name.endswith("/win_or_draw"):
            seat = "second" if name.split("/")[3].endswith("1") else "first"
            rates[f"{seat} seat"] = value
    return {**rates, "legal replies": last["legal_rate"]}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per recipe, with the value of each seed."""
    return seed_rows(
        records, lambda recipe: {"recipe": recipe, "episodes": EPISODES, "starts": "all"}, dict
    )


STUDY = Study(
    summary="Does the tiny model learn games of TextArena and PettingZoo, with three seeds?",
    page="docs/bridges.md",
    hours=1,
    setting={
        "recipes": ["bridges/textarena-tictactoe-tiny", "bridges/pettingzoo-connect-four-tiny"],
        "seeds": 3,
        "changes": [],
    },
    quick={"seeds": 1, "changes": ["steps=2"]},
    cells=cells,
    rows=rows,
)

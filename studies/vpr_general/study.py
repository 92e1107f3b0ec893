"""Sudoku with thousands of puzzles: how verdicts and outcomes generalise to new puzzles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed, metrics, training_cell
from studies.common.study import Setting, Study
from studies.vpr_methods.study import GAMES_PER_STEP, METHODS, evaluated

RECIPE = "vpr/sudoku-tiny"
PUZZLES = {
    1: 2000,
    2: 10_000,
    3: 10_000,
    4: 10_000,
}  # number of empty cells -> number of training puzzles
BLANKS = tuple(PUZZLES)
ENVIRONMENTS = [
    {
        "name": "sudoku",
        "label": f"sudoku{blanks}",
        "options": {"blanks": blanks, "puzzles": puzzles, "wrong": "continues"},
        "illegal": {"rule": "forfeit"},
        "oracle": {"name": "constraint", "lost": "solution"},
    }
    for blanks, puzzles in PUZZLES.items()
]
CHANGES = [  # thousands of puzzles; the curriculum prefers puzzles that are solved half of the time
    "steps=600",
    f"environments={json.dumps(ENVIRONMENTS)}",
    "curriculum={name: difficulty, target: 0.6, width: 0.2, floor: 0.2}",
    "losses=[{name: ppo_clip}, "
    "{name: legal_magnet, weight: {schedule: linear, start: 0.1, end: 0.01}}]",
    "learner.learning_rate={schedule: linear, start: 0.003, end: 0.0005}",
    "learner.average=0.99",
    "evaluation.every=300",
    "evaluation.opponents.0.games_per_seat=300",
    "store.every=0",
]
LEARNS_BY = {"vpr": CHANGES, "outcome": [*CHANGES, *METHODS["outcome"]]}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        training_cell(
            (name, seed),
            f"general-{name}-{seed}",
            RECIPE,
            [*changes, *setting["changes"], f"seed={seed}", "threads=1"],
            run_figures,
        )
        for seed in range(setting["seeds"])
        for name, changes in LEARNS_BY.items()
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the share solved at each evaluation, by number of empty cells and by ``starts``."""
    lines = [line for line in metrics(run) if any(key.startswith("match/") for key in line)]
    result: dict[str, Any] = {"games": lines[-1]["step"] * GAMES_PER_STEP}
    for blanks in BLANKS:
        result[str(blanks)] = {}
        for starts, family in (("unseen", "match"), ("seen", "match_seen")):
            key = f"{family}/sudoku{blanks}/random/solver/success"
            curve = {f"solved after {line['step'] * GAMES_PER_STEP}": line[key] for line in lines}
            last = evaluated(lines[-1], f"sudoku{blanks}", family)
            result[str(blanks)][starts] = {**curve, **last}
    return result


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per method, number of empty cells and kind of starts."""
    result = []
    for name in LEARNS_BY:
        ran = [records[name, seed]["found"] for seed in range(setting["seeds"])]
        for blanks in BLANKS:
            labels = {"learns by": name, "empty cells": blanks, "games": ran[0]["games"]}
            for starts in ran[0][str(blanks)]:
                values = by_seed([record[str(blanks)][starts] for record in ran])
                result.append({**labels, "starts": starts, "values": values})
    return result


STUDY = Study(
    summary="Sudoku with thousands of puzzles: how well the policy solves new puzzles",
    page="studies/vpr_methods/page.md",
    hours=0.3,
    setting={"seeds": 3, "changes": []},
    quick={
        "seeds": 1,
        "changes": [
            *("steps=2", "warmup.updates=2", "rollout.games_per_step=16"),
            "evaluation.opponents.0.games_per_seat=2",
        ],
    },
    cells=cells,
    rows=rows,
)

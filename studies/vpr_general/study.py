"""Sudoku with thousands of puzzles: what is learnt for new ones, by verdicts and by outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Ask, Cell, CellRecords, Row, by_seed, metrics, training
from studies.common.study import Setting, Study
from studies.vpr_methods.study import GAMES_PER_STEP, METHODS, evaluated

RECIPE = "vpr/sudoku-general-tiny"
SHORT = ["steps=600", "evaluation.every=300"]  # of the recipe's 900
LEARNS_BY = {"vpr": SHORT, "outcome": [*METHODS["outcome"], *SHORT]}
BLANKS = (1, 2, 3, 4)


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost."""
    return [
        training(
            (name, seed),
            f"general-{name}-{seed}",
            RECIPE,
            [*changes, *setting["changes"], f"seed={seed}", "threads=1"],
            measured,
        )
        for seed in range(setting["seeds"])
        for name, changes in LEARNS_BY.items()
    ]


def measured(run: Path, said: str, ask: Ask) -> dict[str, Any]:
    """Return by number of empty cells and by starts what a run solves at its evaluations."""
    lines = [line for line in metrics(run) if any(key.startswith("match/") for key in line)]
    found: dict[str, Any] = {"games": lines[-1]["step"] * GAMES_PER_STEP}
    for blanks in BLANKS:
        found[str(blanks)] = {}
        for starts, family in (("unseen", "match"), ("seen", "match_seen")):
            key = f"{family}/sudoku{blanks}/random/solver/success"
            curve = {f"solved after {line['step'] * GAMES_PER_STEP}": line[key] for line in lines}
            last = evaluated(lines[-1], f"sudoku{blanks}", family)
            found[str(blanks)][starts] = {**curve, **last}
    return found


def rows(setting: Setting, kept: CellRecords) -> list[Row]:
    """Return one row per method, number of empty cells and kind of starts."""
    found = []
    for name in LEARNS_BY:
        ran = [kept[name, seed]["found"] for seed in range(setting["seeds"])]
        for blanks in BLANKS:
            own = {"learns by": name, "empty cells": blanks, "games": ran[0]["games"]}
            for starts in ran[0][str(blanks)]:
                values = by_seed([one[str(blanks)][starts] for one in ran])
                found.append({**own, "starts": starts, "values": values})
    return found


STUDY = Study(
    summary="Sudoku with thousands of puzzles: what is learnt for new ones",
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

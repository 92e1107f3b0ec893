"""Do exact advantages help? Every estimator trains one recipe; figures of the credit lab are added.

The column `starts` is "all", as NashConv covers every deal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from sparring.api.cells import Cell, CellRecords, Row, module_cell
from sparring.measure.credit_lab import estimator_names
from studies.common.study import Setting, Study
from studies.credit_lab.study import comparison_cell

MODULE = "studies.credit_race.race"
RECIPE, GAME = "kuhn-tiny", "kuhn_poker"
CHANGES = (
    *("steps=200", "warmup.updates=20", "rollout.games_per_step=128", "rollout.group_size=8"),
    *("evaluation.every=20", "learner.average=0.99", "learner.minibatches=2", "store.every=0"),
    "checkpoint.every=1000",
)
LAB_KEYS = ("bias_scaled", "variance_scaled", "cosine")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: the credit lab, and the runs of every estimator, ordered by seed."""
    runs = [
        race_cell(estimator, seed, setting)
        for seed in range(setting["seeds"])
        for estimator in estimator_names(setting["estimators"])
    ]
    return [comparison_cell(GAME, setting), *runs]


def race_cell(estimator: str, seed: int, setting: Setting) -> Cell:
    """Return the cell of an estimator and a seed."""
    options = {
        "recipe": RECIPE,
        "changes": setting["changes"],
        "estimator": estimator,
        "seed": seed,
    }
    name = re.sub(r"[^A-Za-z0-9_.=-]+", "-", estimator)
    return module_cell(MODULE, options, key=(estimator, seed), name=f"{name}-{seed}")


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return the rows, ordered by final distance; refused estimators come last."""
    lab = lab_rows_by_estimator(records[GAME,]["found"]["game"])
    seeds: dict[str, list[Mapping[str, Any]]] = {}
    for key, cell in records.items():
        if key != (GAME,):
            seeds.setdefault(key[0], []).append(cell["found"])
    return [
        row(entry, lab) for entry in sorted(starmap(combine_seeds, seeds.items()), key=sort_key)
    ]


def combine_seeds(estimator: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an estimator's final and mean distances by seed, and its mean curve."""
    for run in runs:
        if "refused" in run:
            return {"estimator": estimator, "refused": run["refused"]}
    curves = [np.array(run["curve"]) for run in runs]
    return {
        "estimator": estimator,
        "ends": [float(curve[-1, 1]) for curve in curves],
        "means": [float(curve[:, 1].mean()) for curve in curves],
        "curve": np.stack([curves[0][:, 0], np.mean([c[:, 1] for c in curves], 0)], 1).tolist(),
    }


def lab_rows_by_estimator(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of the lab by estimator."""
    return {row["estimator"]: row for row in report["rows"] if "refused" not in row}


def sort_key(row: Mapping[str, Any]) -> tuple[bool, float, str]:
    """Return the sort key of a row."""
    refused = "refused" in row
    return refused, 0.0 if refused else float(np.mean(row["ends"])), row["estimator"]


def row(entry: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> Row:
    """Return the row of an estimator: values per seed, its curve, and its figures in the lab."""
    labels = {"estimator": entry["estimator"], "starts": "all"}
    if "refused" in entry:
        return {**labels, "refused": entry["refused"]}
    pairs = {"final": entry["ends"], "mean": entry["means"]}
    values = {key: {str(seed): value for seed, value in enumerate(of)} for key, of in pairs.items()}
    lab_figures = lab.get(entry["estimator"])
    figures = {key: None if lab_figures is None else lab_figures[key]["mean"] for key in LAB_KEYS}
    return {**labels, "values": values, "lab": figures, "curve": entry["curve"]}


def fields(setting: Setting, records: CellRecords) -> dict[str, Any]:
    """Return the settings of the race."""
    race = {"recipe": RECIPE, "overrides": list(setting["changes"]), "seeds": setting["seeds"]}
    return {"setting": race}


STUDY = Study(
    summary="one recipe trained with every estimator, compared with the credit lab",
    page="studies/credit_race/page.md",
    hours=0.5,
    setting={"estimators": "all", "seeds": 3, "changes": list(CHANGES)},
    quick={
        "estimators": "rloo,grpo",
        "seeds": 1,
        "changes": ["steps=2", "warmup.updates=2", "evaluation.every=1"],
        "episodes": 640,
    },
    cells=cells,
    rows=rows,
    fields=fields,
)

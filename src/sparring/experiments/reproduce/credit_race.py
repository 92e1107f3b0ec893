"""Does truth pay? Every estimator trains one recipe; what the lab says of it is set beside.

Starts are "all": NashConv is computed over every deal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.experiments.reproduce.credit_lab import comparison
from sparring.experiments.study import Ask, Cell, Found, Row, Setting, Study
from sparring.measure.lab_plan import estimator_names
from sparring.system.files import parse_json

RECIPE, GAME = "kuhn-tiny", "kuhn_poker"
CHANGES = (
    *("steps=200", "warmup.updates=20", "rollout.games_per_step=128", "rollout.group_size=8"),
    *("evaluation.every=20", "learner.average=0.99", "learner.minibatches=2", "store.every=0"),
    "checkpoint.every=1000",
)
LAB_KEYS = ("bias_scaled", "variance_scaled", "cosine")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: the lab, and the runs of every estimator, one seed after the other."""
    runs = [raced(name, setting) for name in estimator_names(setting["estimators"])]
    return [comparison(GAME, setting), *runs]


def raced(estimator: str, setting: Setting) -> Cell:
    """Return the cell of an estimator."""
    words = ["--recipe", RECIPE, "--seeds", str(setting["seeds"]), "--estimators", estimator]
    return Cell(
        key=(estimator,),
        folder=re.sub(r"[^A-Za-z0-9_.=-]+", "-", estimator),
        command=(
            *("sparring", "credit", "race", *words),
            *("--workers", "1", "--json", *setting["changes"]),
        ),
        place=("--folder", "{}/{version}"),  # runs that are not whole go on with their own code
        measure=measured,
    )


def measured(folder: Path, said: str, ask: Ask) -> Any:
    """Return the row of the one estimator, and the settings of the race."""
    found = parse_json(said)
    (row,) = found["rows"]
    return {"settings": found["settings"], "row": row}


def rows(setting: Setting, kept: Found) -> list[Row]:
    """Return the rows, the smallest final distance first, and the refused last."""
    lab = lab_of(kept[GAME,]["found"]["game"])
    raced = (one["found"]["row"] for (name,), one in kept.items() if name != GAME)
    return [row(one, lab) for one in sorted(raced, key=rank)]


def lab_of(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of the lab by estimator."""
    return {row["estimator"]: row for row in report["rows"] if "refused" not in row}


def rank(row: Mapping[str, Any]) -> tuple[bool, float, str]:
    """Return what rows are sorted by."""
    refused = "refused" in row
    return refused, 0.0 if refused else row["final"]["mean"], row["estimator"]


def row(one: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> Row:
    """Return the row of an estimator: values per seed, its curve, and what the lab says of it."""
    labels = {"estimator": one["estimator"], "starts": "all"}
    if "refused" in one:
        return {**labels, "refused": one["refused"]}
    pairs = {"final": one["ends"], "mean": one["means"]}
    values = {key: {str(seed): value for seed, value in enumerate(of)} for key, of in pairs.items()}
    own = lab.get(one["estimator"])
    figures = {key: None if own is None else own[key]["mean"] for key in LAB_KEYS}
    return {**labels, "values": values, "lab": figures, "curve": one["curve"]}


def fields(setting: Setting, kept: Found) -> dict[str, Any]:
    """Return the settings of the race."""
    raced = (one["found"] for (name,), one in kept.items() if name != GAME)
    return {"setting": next(raced)["settings"]}


STUDY = Study(
    summary="one recipe trained by every estimator, beside what the lab says of them",
    page="docs/credit-race.md",
    hours=0.5,
    results="credit-race",
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

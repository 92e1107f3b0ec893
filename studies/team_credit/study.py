"""Exact variance and bias of shared and per-worker rewards in a team.

The team is a lead and its workers, in the smallest worlds of ``wide_search``, which can be
enumerated.
"""

from __future__ import annotations

from typing import Any

from sparring.api.cells import Cell, CellRecords, Row
from studies.common.study import Setting, Study
from studies.credit_lab.study import read_comparison, row

SMALLEST = "columns=1 turns=2 waves=1"  # a worker opens a page and notes its cell
GAMES = {
    "2": f"wide_search items=2 workers=2 worlds=4 {SMALLEST}",
    "4": f"wide_search items=4 workers=4 worlds=1 {SMALLEST}",
}
PAYS = {
    "team": "",
    "difference": "contribution by=difference",
    "shapley": "contribution by=shapley",
    "own": "contribution by=own",
}
ESTIMATORS = "outcome,rloo,grpo"
TRUE = ",exact_advantage,difference_rewards,coma"  # estimators that read the team's return


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: a comparison per number of workers, policy and pay."""
    return [
        comparison(workers, policy, pay, setting)
        for workers in setting["workers"]
        for policy in setting["policies"]
        for pay in setting["pays"]
    ]


def comparison(workers: str, policy: str, pay: str, setting: Setting) -> Cell:
    """Return the cell of one comparison."""
    estimators = ESTIMATORS if PAYS[pay] else ESTIMATORS + TRUE
    reward = ("--reward", PAYS[pay]) if PAYS[pay] else ()
    sizes = ("--episodes", str(setting["episodes"]))
    options = ("--policy", policy, *reward, "--estimators", estimators, *sizes)
    return Cell(
        key=(workers, policy, pay),
        folder=f"team {workers} {policy} {pay}".replace(" ", "-"),
        command=(
            *("sparring", "credit", "compare", "--environment", GAMES[workers]),
            *(*options, "--no-time", "--json"),
        ),
        path_words=(),
        measure=read_comparison,
    )


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per comparison and estimator."""
    result = []
    for workers in setting["workers"]:
        for policy in setting["policies"]:
            for pay in setting["pays"]:
                report = records[workers, policy, pay]["found"]["game"]
                labels = {"workers": int(workers), "policy": policy, "paid": pay}
                result += [{**row(report["game"], entry), **labels} for entry in report["rows"]]
    return result


def fields(setting: Setting, records: CellRecords) -> dict[str, Any]:
    """Return the settings of each comparison, besides the usual fields."""
    games = []
    for workers in setting["workers"]:
        for policy in setting["policies"]:
            report = records[workers, policy, setting["pays"][0]]["found"]["game"]
            head = {key: report[key] for key in report if key != "rows"}
            games.append({**head, "workers": int(workers), "policy": policy})
    return {"games": games}


STUDY = Study(
    summary="rewards for the whole team or for each worker, compared with exact gradients",
    page="docs/team-credit.md",
    hours=0.1,
    setting={
        "workers": ["2", "4"],
        "policies": ["random", "improved"],
        "pays": list(PAYS),
        "episodes": 6000,
    },
    quick={"workers": ["2"], "policies": ["random"], "pays": ["team", "own"], "episodes": 640},
    cells=cells,
    rows=rows,
    fields=fields,
)

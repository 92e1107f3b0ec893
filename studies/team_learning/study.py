"""Do shared or per-worker rewards decide what a small team learns? Exact returns at each step."""

from __future__ import annotations

from sparring.api.cells import Cell, CellRecords, Row, module_cell
from studies.common.study import Setting, Study
from studies.team_credit.study import GAMES, PAYS

MODULE = "studies.team_learning.learner"


def cells(setting: Setting) -> list[Cell]:
    """Return a cell per number of workers, learning rate and reward; a cell has all seeds."""
    return [
        cell(workers, rate, pay, setting)
        for workers in setting["workers"]
        for rate in setting["rates"]
        for pay in setting["pays"]
    ]


def cell(workers: str, rate: float, pay: str, setting: Setting) -> Cell:
    """Return the cell of a number of workers, a learning rate and a reward."""
    inputs = {
        "environment": GAMES[workers],
        "reward": PAYS[pay],
        "rate": rate,
        **{key: setting[key] for key in ("estimator", "steps", "batch", "group", "seeds")},
    }
    name = f"learn {workers} {rate:g} {pay}"
    return module_cell(MODULE, inputs, key=(workers, rate, pay), name=name)


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per cell: the return at several steps, and its mean over all steps."""
    result = []
    for key in records:
        curves = records[key]["found"]["returns"]
        values = {
            f"return after {step}": {seed: curve[step] for seed, curve in curves.items()}
            for step in marks(setting)
        }
        values["mean return"] = {
            seed: sum(returns) / len(returns) for seed, returns in curves.items()
        }
        workers, rate, pay = key
        labels = {"workers": int(workers), "rate": rate, "paid": pay, "starts": "all"}
        result.append({**labels, "values": values})
    return result


def marks(setting: Setting) -> list[int]:
    """Return the steps after which returns are stored."""
    return sorted({setting["steps"] * part // 4 for part in range(5)})


STUDY = Study(
    summary="do rewards for each worker change what a small team learns? Exact returns",
    page="docs/team-credit.md",
    hours=0.1,
    setting={
        "workers": ["2", "4"],
        "rates": [1.0, 4.0],
        "pays": list(PAYS),
        "estimator": "grpo",
        "steps": 100,
        "batch": 32,
        "group": 8,
        "seeds": 5,
    },
    quick={"workers": ["2"], "rates": [4.0], "pays": ["team", "own"], "steps": 4, "seeds": 2},
    cells=cells,
    rows=rows,
)

"""Fictitious cross-play (FXP) and its baselines, with tabular policies in three team games."""

from __future__ import annotations

from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, by_seed, module_cell
from studies.common.study import Setting, Study

MODULE = "studies.self_play.team_table"
# meta-solvers: that of the authors' code, and a linear program
AUTHORS_SOLVER, EXACT_SOLVER = "fictitious_play", "nash"
MEMBERS = {"example": 3, "rock_paper_scissors": 2, "seek_attack_defend": 4}
STEPS = {"example": 1000, "rock_paper_scissors": 1000, "seek_attack_defend": 300}
# number of rounds in each game; PSRO has one more member
PSRO = {"example": 11, "rock_paper_scissors": 11, "seek_attack_defend": 5}
FXP = {"example": 10, "rock_paper_scissors": 10, "seek_attack_defend": 5}
# figures of the authors' code (zelaix/fxp at b0d1d96) from uniform policies
AUTHORS_FIGURES: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("SP", "last"): (1.486, 0.986, 4.000),
    ("FSP", "average"): (1.481, 0.980, 3.986),
    ("PSRO uniform", "mixture"): (0.315, 0.100, None),
    ("PSRO Nash", "mixture"): (0.000, 0.016, 0.976),
    ("FXP", "mixture"): (0.000, 0.025, 0.063),
    ("FXP", "last"): (0.000, 1.000, 4.000),
}
# exploitability from random policies, by game: main, mean of mains, mixture
AUTHORS_GRIDWORLD_FIGURES: dict[tuple[str, str], dict[str, float]] = {
    ("example", "gridworld"): {"last": 1.5, "average": 1.392, "mixture": 0.0},
    ("example", "gridworld, one counter"): {"last": 1.5, "average": 1.392, "mixture": 1.5},
    ("rock_paper_scissors", "gridworld"): {"last": 1.0, "average": 0.85, "mixture": 0.0},
    ("rock_paper_scissors", "gridworld, one counter"): {
        "last": 1.0,
        "average": 0.724,
        "mixture": 0.4,
    },
}
PARTS = (
    *("uniform start", "longer phases", "random start"),
    *("gridworld form", "self share", "team size"),
)
Labels = dict[str, Any]


def cell_labels(game: str, method: str, part: str, **changes: Any) -> Labels:
    """Return a cell's labels, which are also the arguments of ``team_table.measure_method``."""
    rounds = (PSRO if method.startswith("PSRO") else FXP)[game]
    rounds = {"SP": 1, "FSP": STEPS[game]}.get(method, rounds)  # a step of FSP is a round
    usual = {"game": game, "members": MEMBERS[game], "method": method, "solver": "-", "eta": 0.3}
    shape = {"start": "uniform", "steps": STEPS[game], "rounds": rounds, "seeds": 1}
    return {"part": part, **usual, **shape, **changes}


def all_labels(setting: Setting) -> list[Labels]:
    """Return all cells of a setting."""
    all_cells = [*uniform_starts(setting), *random_starts(setting), *team_sizes(setting)]
    return [labels for labels in all_cells if labels["part"] in setting["parts"]]


def uniform_starts(setting: Setting) -> list[Labels]:
    """Return the deterministic cells, which begin with uniform policies."""
    result = []
    for game in setting["games"]:
        result += [cell_labels(game, name, "uniform start") for name in ("SP", "FSP")]
        if game != "seek_attack_defend":
            result.append(cell_labels(game, "PSRO uniform", "uniform start", rounds=19))
        for solver in (AUTHORS_SOLVER, EXACT_SOLVER):
            for name in ("PSRO Nash", "FXP"):
                result.append(cell_labels(game, name, "uniform start", solver=solver))
        if game == "seek_attack_defend":
            result.append(
                cell_labels(game, "FXP", "longer phases", solver=EXACT_SOLVER, steps=1000)
            )
    return result


def random_starts(setting: Setting) -> list[Labels]:
    """Return the cells that begin with random policies."""
    options, result = {"start": "random", "seeds": setting["seeds"]}, []
    for game in [game for game in setting["games"] if game != "seek_attack_defend"]:
        result += [cell_labels(game, name, "random start", **options) for name in ("SP", "FSP")]
        for solver in (AUTHORS_SOLVER, EXACT_SOLVER):
            for name in ("PSRO Nash", "FXP", "FXP, one counter"):
                result.append(cell_labels(game, name, "random start", solver=solver, **options))
        for name in ("gridworld", "gridworld, one counter"):
            changes = {"solver": AUTHORS_SOLVER, "steps": 200, **options}
            result.append(cell_labels(game, name, "gridworld form", **changes))
        for eta in setting["etas"]:
            result.append(
                cell_labels(game, "FXP", "self share", solver=EXACT_SOLVER, eta=eta, **options)
            )
    return result


def team_sizes(setting: Setting) -> list[Labels]:
    """Return the cells of self-play in the example, with teams of several sizes."""
    options = {"start": "random", "seeds": setting["size seeds"]}
    return [
        cell_labels("example", "SP", "team size", members=size, **options)
        for size in setting["sizes"]
    ]


def cells(setting: Setting) -> list[Cell]:
    """Return one cell per method, game and kind of start; a cell runs all seeds."""
    return [cell(labels) for labels in all_labels(setting)]


def cell(labels: Labels) -> Cell:
    """Return the cell of a method."""
    inputs = {name: value for name, value in labels.items() if name != "part"}
    if inputs["solver"] == "-":
        del inputs["solver"]
    name = "-".join(str(value) for value in labels.values())
    return module_cell(MODULE, inputs, key=tuple(labels.values()), name=name)


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per cell and answer, with the figure of the authors' code if there is one."""
    result = []
    for labels in all_labels(setting):
        for answer, seeds in records[tuple(labels.values())]["found"].items():
            row_labels = {**labels, "answer": answer, "starts": "all"}
            row_labels["released"] = authors_figure(labels, answer)
            result.append({**row_labels, "values": by_seed(seeds)})
    return result


def authors_figure(labels: Labels, answer: str) -> float | None:
    """Return the figure of the authors' code for a row; None if there is none."""
    if labels["part"] == "gridworld form":
        return AUTHORS_GRIDWORLD_FIGURES[labels["game"], labels["method"]][answer]
    if labels["part"] == "uniform start" and labels["solver"] != EXACT_SOLVER:
        return AUTHORS_FIGURES[labels["method"], answer][list(MEMBERS).index(labels["game"])]
    return None


STUDY = Study(
    summary="FXP, PSRO and self-play of teams in three matrix games, with tables",
    page="studies/fxp/page.md",
    hours=0.2,
    setting={
        "games": list(MEMBERS),
        "parts": list(PARTS),
        "seeds": 20,
        "etas": [0.0, 0.1, 0.6, 1.0],
        "sizes": [2, 3, 5, 8],
        "size seeds": 100,
    },
    quick={
        "games": ["rock_paper_scissors"],
        "parts": ["self share", "team size"],
        "seeds": 2,
        "etas": [0.0],
        "sizes": [2, 3],
        "size seeds": 3,
    },
    cells=cells,
    rows=rows,
)

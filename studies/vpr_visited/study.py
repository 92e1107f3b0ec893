"""The exact states to which the best of K replies leads, during training with VPR.

Policies learn on boards that are small enough to enumerate the visits of a policy with one reply to
a prompt, and with one of the best of 2, 4 or 8 replies, as in training.
"""

from __future__ import annotations

import json
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, by_seed, module_cell
from studies.common.study import Setting, Study
from studies.vpr_released.study import LONG, MODULE, changes_of, recipe_of

START = "start"
BOARDS: dict[str, dict[str, Any]] = {
    "sudoku": {"blanks": 3, "puzzles": 4},
    "minesweeper": {"rows": 2, "columns": 3, "mines": 1, "layouts": 6},
    "sokoban": {
        "rows": 5,
        "columns": 5,
        "boxes": 1,
        "walls": 4,
        "shortest": 1,
        "longest": 4,
        "moves": 5,
        "rooms": 4,
    },
}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; next to each other games differ, so that warm-ups do."""
    return [
        cell(game, arm, budget, seed, setting)
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
        for budget in setting["budgets"]
        for game in setting["games"]
    ]


def cell(game: str, arm: str, budget: int, seed: int, setting: Setting) -> Cell:
    """Return the cell of a game, an arm, a number of sampled tokens and a seed."""
    board = f"environments.0.options={json.dumps(BOARDS[game])}"
    inputs = {
        "recipe": recipe_of(game),
        "changes": [*changes_of(game, arm), LONG, f"warmup.updates={setting['warm-up']}", board],
        "seed": seed,
        "budget": budget,
        "plays": 1,  # all initial states occur in training; the figures are enumerated
        "counts": setting["counts"],
    }
    name = f"{game} {arm} {budget} {seed}"
    return module_cell(MODULE, inputs, key=(game, arm, budget, seed), name=name)


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per game, arm, sampled tokens and number of replies; "start" has no tokens."""
    result = []
    for game in setting["games"]:
        for arm in (START, *setting["arms"]):
            for budget in setting["budgets"] if arm != START else (0,):
                ran = _visits_by_seed(setting, records, game, arm, budget)
                for count in map(str, setting["counts"]):
                    labels = {"game": game, "arm": arm, "sampled": str(budget), "replies": count}
                    values = by_seed([record[count] for record in ran])
                    result.append({**labels, "starts": "all", "values": values})
    return result


def _visits_by_seed(
    setting: Setting, records: CellRecords, game: str, arm: str, budget: int
) -> list[dict[str, dict[str, float]]]:
    """Return the visits of each seed after a number of tokens; 0 tokens: those of any arm."""
    if arm == START:
        first = (setting["arms"][0], setting["budgets"][0])
        where, which = "start_occupancy", (game, *first)
    else:
        where, which = "occupancy", (game, arm, budget)
    return [records[*which, seed]["found"][where] for seed in range(setting["seeds"])]


STUDY = Study(
    summary="VPR as released: the exact states visited if the best of K replies is played",
    page="studies/vpr_methods/page.md",
    hours=0.3,
    setting={
        "games": list(BOARDS),
        "arms": ["released", "random"],
        "seeds": 5,
        "budgets": [5_000, 20_000, 100_000],
        "warm-up": 300,
        "counts": [1, 2, 4, 8],
    },
    quick={
        "games": ["sudoku"],
        "arms": ["released"],
        "seeds": 1,
        "budgets": [1000],
        "warm-up": 2,
        "counts": [1, 4],
    },
    cells=cells,
    rows=rows,
)

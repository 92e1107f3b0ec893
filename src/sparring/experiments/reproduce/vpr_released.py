"""VPR as released, beside its baselines and the older form, at equal sampled tokens.

Four replies to a prompt cost four. Every figure is of starts that training never met, but for the
visited states. These are enumerated on boards small enough, of policies that were trained there.
"""

from __future__ import annotations

import json
from typing import Any

from sparring.experiments.study import Cell, Found, Row, Setting, Study, by_seed, module_cell

MODULE = "sparring.experiments.state_groups"
GAMES = ("sudoku", "minesweeper", "sokoban")
ARMS = {  # arm -> what its recipe's name ends in
    "released": "",
    "random": "-random",
    "outcome": "-outcome",
    "vine": "-vine",
    "older": "-older",
}
SMALL: dict[str, dict[str, Any]] = {  # boards whose visited states are enumerated
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
GUIDED = ("released", "random")  # arms of which it is asked where several replies lead
FIGURES = ("success", "completion", "illegal", "decisions", "tokens", "steps")
LONG = "steps=100000"  # tokens end a run, and nothing in the recipes depends on its length


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; next to each other games differ, so that warm-ups do."""
    return [
        cell(game, arm, seed, small, setting)
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
        for small in ((False, True) if arm in GUIDED else (False,))
        for game in setting["games"]
    ]


def cell(game: str, arm: str, seed: int, small: bool, setting: Setting) -> Cell:
    """Return the cell of a game, an arm and a seed, on its board or on a small one."""
    changes = [LONG, *setting["changes"]]
    if small:
        board = f"environments.0.options={json.dumps(SMALL[game])}"
        changes = [LONG, "warmup.updates=300", *setting["changes"], board]
    given = {
        "recipe": f"vpr/{game}-tiny-released{ARMS[arm]}",
        "changes": changes,
        "seed": seed,
        "budget": setting["small_budget"] if small else setting["budget"][game],
        "plays": setting["plays"],
        "counts": setting["counts"] if small else [],
    }
    name = f"{game} {'small ' if small else ''}{arm} {seed}"
    return module_cell(MODULE, given, key=(game, arm, small, seed), name=name)


def rows(setting: Setting, kept: Found) -> list[Row]:
    """Return a row per game and arm, and one per number of replies of what it would visit.

    A game's first row is its start, the warm-up that all arms share.
    """
    found = []

    def ran(game: str, arm: str, small: bool) -> list[dict[str, Any]]:
        """Return what the seeds of an arm came to."""
        return [kept[game, arm, small, seed]["found"] for seed in range(setting["seeds"])]

    for game in setting["games"]:
        first = ran(game, setting["arms"][0], False)
        begun = by_seed([{**one["start"], "tokens": 0, "steps": 0} for one in first])
        found.append({"game": game, "arm": "start", "starts": first[0]["starts"], "values": begun})
        for arm in setting["arms"]:
            own: dict[str, Any] = {"game": game, "arm": arm}
            whole = ran(game, arm, False)
            values = by_seed([{name: one[name] for name in FIGURES} for one in whole])
            found.append({**own, "starts": whole[0]["starts"], "values": values})
            for count in map(str, setting["counts"] if arm in GUIDED else ()):
                seen = by_seed([one["occupancy"][count] for one in ran(game, arm, True)])
                found.append({**own, "starts": "all", "replies": int(count), "values": seen})
    return found


STUDY = Study(
    summary="VPR as released, its baselines and its older form, at equal sampled tokens",
    page="docs/reproduction/vpr.md",
    hours=3.6,
    results="vpr-released",
    setting={
        "games": list(GAMES),
        "arms": list(ARMS),
        "seeds": 5,
        "budget": {"sudoku": 1_200_000, "minesweeper": 400_000, "sokoban": 1_200_000},
        "small_budget": 100_000,
        "plays": 500,
        "counts": [1, 2, 4, 8],
        "changes": [],
    },
    quick={
        "games": ["sudoku"],
        "arms": ["released", "vine"],
        "seeds": 1,
        "budget": {"sudoku": 1000},
        "small_budget": 1000,
        "plays": 20,
        "counts": [1, 4],
        "changes": ["warmup.updates=2", "environments.0.options.puzzles=200"],
    },
    cells=cells,
    rows=rows,
)

"""VPR as in its authors' code, its baselines and the older form, with equally many sampled tokens.

Four replies to a prompt cost four times the tokens. All figures have unseen initial states.
"""

from __future__ import annotations

from sparring.api.cells import Cell, CellRecords, Row, by_seed, module_cell
from studies.common.study import Setting, Study

MODULE = "studies.vpr_released.state_groups"
GAMES = ("sudoku", "minesweeper", "sokoban")
ONE_REPLY = ("rollout.candidates.count=1", "rewards=[]", "reorder_outcomes=false")
BY_GROUP = ("rollout.games_per_step=256", "rollout.group_size=8")
ARMS = {  # arm: overrides of VPR as in the authors' code
    "released": (),
    "random": ("rollout.candidates.commit=random",),
    "outcome": (*BY_GROUP, *ONE_REPLY, "credit={name: grpo}"),
    "vine": (
        *("rollout.games_per_step=32", "rollout.playouts=5", *ONE_REPLY),
        "credit={name: vine_ppo}",
    ),
    "older": (
        *(*BY_GROUP, "rollout.candidates.count=1", "rewards=[{name: best_action}]"),
        "credit={name: vpr, preset: by_turn}",
    ),
}
JUDGES = {  # the judge of turns in the older form
    "sudoku": "{name: constraint}",
    "minesweeper": "{name: posterior}",
    "sokoban": "{name: constraint, lost: solution}",
}
FIGURES = ("success", "completion", "illegal", "decisions", "tokens", "steps")
LONG = "steps=100000"  # tokens end a run; no schedule of the recipes depends on its length


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; next to each other games differ, so that warm-ups do."""
    return [
        cell(game, arm, seed, setting)
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
        for game in setting["games"]
    ]


def cell(game: str, arm: str, seed: int, setting: Setting) -> Cell:
    """Return the cell of a game, an arm and a seed."""
    inputs = {
        "recipe": recipe_of(game),
        "changes": [*changes_of(game, arm), LONG, *setting["changes"]],
        "seed": seed,
        "budget": setting["budget"][game],
        "plays": setting["plays"],
        "counts": [],
    }
    return module_cell(MODULE, inputs, key=(game, arm, seed), name=f"{game} {arm} {seed}")


def recipe_of(game: str) -> str:
    """Return the name of a game's recipe, VPR as released."""
    return f"vpr/{game}-tiny-released"


def changes_of(game: str, arm: str) -> list[str]:
    """Return the changes to a game's recipe that make an arm."""
    judge = [f"environments.0.oracle={JUDGES[game]}"] if arm == "older" else []
    return [*ARMS[arm], *judge]


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per game and arm; the first row of a game is the warm-up of all its arms."""
    result = []
    for game in setting["games"]:
        for arm in setting["arms"]:
            ran = [records[game, arm, seed]["found"] for seed in range(setting["seeds"])]
            labels = {"game": game, "starts": ran[0]["starts"]}
            if arm == setting["arms"][0]:
                start = by_seed([{**record["start"], "tokens": 0, "steps": 0} for record in ran])
                result.append({**labels, "arm": "start", "values": start})
            values = by_seed([{name: record[name] for name in FIGURES} for record in ran])
            result.append({**labels, "arm": arm, "values": values})
    return result


STUDY = Study(
    summary="VPR as released, its baselines and its older form, at equal sampled tokens",
    page="studies/vpr_methods/page.md",
    hours=2.4,
    setting={
        "games": list(GAMES),
        "arms": list(ARMS),
        "seeds": 5,
        "budget": {"sudoku": 1_200_000, "minesweeper": 400_000, "sokoban": 1_200_000},
        "plays": 500,
        "changes": [],
    },
    quick={
        "games": ["sudoku"],
        "arms": ["released", "vine"],
        "seeds": 1,
        "budget": {"sudoku": 1000},
        "plays": 20,
        "changes": ["warmup.updates=2", "environments.0.options.puzzles=200"],
    },
    cells=cells,
    rows=rows,
)

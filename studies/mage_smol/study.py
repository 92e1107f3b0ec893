"""Does SmolLM2 learn about its opponent within an episode, with notes that it writes?

An episode has three attempts of rock, paper, scissors against players who prefer one move. The
model first imitates a player that counters the opponent's moves, for fewer updates than it needs,
and then learns by reward. It is compared with the end of that warm-up, with the same seed. The
results per role and attempt come from sampled trials: the mean return, and the share of the
headroom between the best single policy and the best response that it closes, against opponents of
training and against held-out opponents.

Opponents draw their moves, so no episode can be memorised; the column `starts` is "all".
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed
from studies.common.self_played import UNTRAINED, Arm, arm_cell
from studies.common.study import Setting, Study
from studies.mage.study import evaluate_pools

RECIPE = "mage/rock-smol"
WARM_UP, TRAINED = "warm-up", "trained"
ARMS: dict[str, Arm] = {TRAINED: (RECIPE, ()), WARM_UP: (RECIPE, UNTRAINED)}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by arm."""
    measure = partial(run_figures, games=setting["games_per_role"])
    return [
        arm_cell(arm, seed, ARMS[arm], setting, measure)
        for arm in setting["arms"]
        for seed in range(setting["seeds"])
    ]


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, games: int
) -> list[dict[str, Any]]:
    """Return the rows of a run's opponent pools; notes are free text, so no row is exact."""
    return evaluate_pools(run, run_command, games, "--no-exact")


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm, role and pool of opponents, with the values of each seed."""
    result = []
    for arm in setting["arms"]:
        ran = [record["found"] for (name, _), record in records.items() if name == arm]
        for index, record in enumerate(ran[0]):
            labels = {"arm": arm, "role": record["role"], "met": record["trained"], "starts": "all"}
            exact = {"best": record["best"], "fixed": record["fixed"], "ceiling": record["ceiling"]}
            figures = [_figures(rows[index]) for rows in ran]
            trials = record["attempts"][0]["trials"]
            result.append({**labels, **exact, "trials": trials, "values": by_seed(figures)})
    return result


def _figures(row: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a pool: the headroom closed and the return by attempt, the forfeits."""
    shares = {f"closed {at}": attempt["mean"] for at, attempt in enumerate(row["closed"], 1)}
    returns = {f"return {at}": attempt["mean"] for at, attempt in enumerate(row["attempts"], 1)}
    return {**shares, **returns, "forfeits": row["forfeits"]}


STUDY = Study(
    summary="MAGE: does SmolLM2 learn about its opponent within three attempts, with written notes",
    page="studies/mage/page.md",
    hours=1.4,
    setting={"arms": list(ARMS), "seeds": 3, "games_per_role": 40, "changes": []},
    quick={
        "seeds": 1,
        "arms": [WARM_UP],
        "games_per_role": 2,
        "changes": [
            "steps=1",
            "warmup.updates=1",
            "warmup.games=2",
            "rollout.games_per_step=2",
            "rollout.group_size=2",
            "rollout.max_new_tokens=4",
            *(f"evaluation.opponents.{place}.games_per_seat=1" for place in range(3)),
        ],
    },
    cells=cells,
    rows=rows,
)

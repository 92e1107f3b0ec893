"""WideSeek-R1: is a wider team better, does it beat one agent, and must all its parts be trained?

A lead and at most 1, 2, 4 or 8 workers fill a table. In the arms, one policy plays all seats; or
only the lead or only the workers are trained, and the others keep their state after the warm-up; or
one agent does the whole task. The results per seed and width are item F1 with and without names,
whole tables, width, critical and total steps, in self-play on tables that do not occur in training.

The single agent has as many turns as lead and workers have together at each width. Its smallest
number of turns, that of a team with one worker, equals the critical steps of any team.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed
from studies.common.self_played import (
    TOKENS_FIGURE,
    UNTRAINED,
    Arm,
    arm_cell,
    freeze_change,
    measure_self_play,
    sampled_tokens,
    unfreeze_change,
)
from studies.common.study import Setting, Study

START, JOINT, LEAD, WORKERS = "start", "joint", "lead", "workers"
ALONE, ALONE_START = "single", "single start"
TEAMS = (START, JOINT, LEAD, WORKERS)
ARMS: dict[str, Arm] = {
    START: ("wideseek/tiny", UNTRAINED),
    JOINT: ("wideseek/tiny", ()),
    LEAD: ("wideseek/tiny-lead", ()),
    WORKERS: ("wideseek/tiny-lead", (freeze_change("lead"), unfreeze_change("worker"))),
    ALONE_START: ("wideseek/tiny-single", UNTRAINED),
    ALONE: ("wideseek/tiny-single", ()),
}
FIGURES = (
    *("item_f1", "non_key_f1", "success"),
    *("width", "critical_steps", "total_steps"),
)
SHOWN = (
    "width-",
    "total-",
)  # beginnings of the labels of measured environments; others are only trained on


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        arm_cell(
            arm, seed, ARMS[arm], setting, partial(run_figures, plays=setting["plays"], seed=seed)
        )
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
    ]


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, plays: int, seed: int
) -> list[dict[str, Any]]:
    """Return the figures of a run by width.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs the measured episodes.
        plays: number of self-play episodes at each width.
        seed: seed of these episodes.
    """
    games, tokens = measure_self_play(run, run_command, plays=plays, seed=seed), sampled_tokens(run)
    rows = [
        {
            "workers": int(game["game"].rpartition("-")[2]),
            "starts": game["starts"],
            "figures": {name: game["figures"][name]["mean"] for name in FIGURES}
            | {TOKENS_FIGURE: tokens},
        }
        for game in games
        if game["game"].startswith(SHOWN)
    ]
    return sorted(rows, key=lambda row: row["workers"])


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm and width, with the values of each seed."""
    result = []
    for arm in setting["arms"]:
        figures_by_seed = [records[arm, seed]["found"] for seed in range(setting["seeds"])]
        seconds = [records[arm, seed]["seconds"] for seed in range(setting["seeds"])]
        for index, game in enumerate(figures_by_seed[0]):
            figures = [
                figures[index]["figures"] | {"seconds": run_seconds}
                for figures, run_seconds in zip(figures_by_seed, seconds, strict=True)
            ]
            labels = {"arm": arm, "workers": game["workers"], "starts": game["starts"]}
            result.append({**labels, "plays": setting["plays"], "values": by_seed(figures)})
    return result


STUDY = Study(
    summary="WideSeek-R1: a lead with 1 to 8 workers, trained fully or in part, and a single agent",
    page="studies/wideseek/page.md",
    hours=0.8,
    setting={"arms": list(ARMS), "seeds": 5, "plays": 300, "changes": []},
    quick={
        "arms": [JOINT, LEAD, ALONE],
        "seeds": 1,
        "plays": 4,
        "changes": [
            "steps=1",
            "warmup.updates=2",
            "warmup.games=8",
            "rollout.games_per_step=32",
        ],
    },
    cells=cells,
    rows=rows,
)

"""WideSeek-R1: is a wider team a better one, does it beat one agent, and does it take both?

A lead and at most 1, 2, 4 or 8 workers look for a table. Arms: one policy in all seats; the lead
alone or the workers alone trained, the others as the warm-up left them; and one agent that does all
of it. Kept per seed and width, of self-play on tables that training never met: item F1, with and
without names, whole tables, width, critical and total steps.

The agent alone has as many turns in all as lead and workers have together at each width; with the
fewest, those of one worker, it has as many as any team's critical steps.
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
)  # labels of environments that are measured; others are trained on alone


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
        run_command: runs the plays that are measured.
        plays: of the run's policies with each other, at each width.
        seed: of these plays.
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
        ran = [records[arm, seed]["found"] for seed in range(setting["seeds"])]
        seconds = [records[arm, seed]["seconds"] for seed in range(setting["seeds"])]
        for index, game in enumerate(ran[0]):
            figures = [
                figures[index]["figures"] | {"seconds": each}
                for figures, each in zip(ran, seconds, strict=True)
            ]
            labels = {"arm": arm, "workers": game["workers"], "starts": game["starts"]}
            result.append({**labels, "plays": setting["plays"], "values": by_seed(figures)})
    return result


STUDY = Study(
    summary="WideSeek-R1: a lead and 1 to 8 workers, trained or half trained, and one agent",
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

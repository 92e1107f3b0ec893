"""Agent Swarm: does a lead call as many workers as the task needs, and do PARL's rewards help?

Only the lead learns; its scripted workers have no faults. The arms are: both rewards added to the
outcome and annealed to zero; no rewards; both with constant weights; and the first arm with eight
sub-tasks and workers. The results per seed and shape, on worlds that do not occur in training, are
the width, the critical steps (also of the best schedule and of one worker at a time), the share of
finished sub-tasks, and the rank correlation of chosen and best width.

In a second part the workers are models, which at first finish half of their sub-tasks. Its
arms are: lead and workers learn, only the lead learns, and only the workers learn.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed
from sparring.core.files import parse_json
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
from studies.swarm.widths import ALL

MODULE = "studies.swarm.widths"
ANNEALED, NONE, CONSTANT, EIGHT = "annealed", "none", "constant", "eight"
WIDER = (  # eight sub-tasks and eight workers
    *(
        f"environments.{number}.options.{option}=8"
        for number in range(3)
        for option in ("tasks", "workers")
    ),
    *(f"policies.{policy}.model.context=256" for policy in ("lead", "worker")),
    *(f"roles.worker {number}=worker" for number in range(5, 9)),
)
ARMS: dict[str, Arm] = {
    ANNEALED: ("swarm/tiny", ()),
    NONE: ("swarm/tiny", ("rewards=[]",)),
    CONSTANT: ("swarm/tiny", ("rewards.0.weight=0.5", "rewards.1.weight=0.5")),
    EIGHT: ("swarm/tiny", WIDER),
}
START, LEAD, WORKERS, JOINT = "start", "lead", "workers", "joint"
TEAMS: dict[str, Arm] = {  # teams whose workers are models
    START: ("swarm/tiny-joint", UNTRAINED),
    LEAD: ("swarm/tiny-joint", (freeze_change("worker"),)),
    WORKERS: ("swarm/tiny-joint", (freeze_change("lead"), unfreeze_change("worker"))),
    JOINT: ("swarm/tiny-joint", ()),
}
SHAPES = ("independent", "chain", "random")
FIGURES = (
    *("return", "success", "width", "optimal_width", "width_right", "regret", "finished_share"),
    *("critical_steps", "optimal_critical_steps", "serial_critical_steps"),
)
TEAM_FIGURES = ("success", "width", "optimal_width", "finished_share", "critical_steps")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    plays = setting["plays"]
    return [
        cell
        for seed in range(setting["seeds"])
        for cell in (
            *(
                arm_cell(arm, seed, ARMS[arm], setting, partial(run_figures, plays=plays))
                for arm in setting["arms"]
            ),
            *(
                arm_cell(
                    arm, seed, TEAMS[arm], setting, partial(team_figures, plays=plays, seed=seed)
                )
                for arm in setting["teams"]
            ),
        )
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand, *, plays: int) -> dict[str, Any]:
    """Return the figures of a run's lead with workers that have no faults, by shape."""
    output = run / "widths.json"
    run_command(
        ["python", "-m", MODULE, json.dumps({"run": str(run), "plays": plays}), str(output)]
    )
    document: dict[str, Any] = parse_json(output.read_bytes())
    return document


def team_figures(
    run: Path, stdout: str, run_command: RunCommand, *, plays: int, seed: int
) -> dict[str, Any]:
    """Return the figures of a run's lead and workers together, by shape."""
    tokens = sampled_tokens(run)
    return {
        game["game"]: {
            "return": game["returns"]["lead"]["mean"],
            **{name: game["figures"][name]["mean"] for name in TEAM_FIGURES},
            TOKENS_FIGURE: tokens,
        }
        for game in measure_self_play(run, run_command, plays=plays, seed=seed)
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per arm and shape, and one per arm of the correlation over all shapes.

    A correlation has values for the seeds in which both widths vary. Teams of models have none.
    """
    result = []
    for arm in setting["arms"]:
        run_figures_by_seed = [records[arm, seed]["found"] for seed in range(setting["seeds"])]
        labels = {"arm": arm, "starts": "unseen"}
        for shape in SHAPES:
            values = by_seed(
                [{name: record[shape][name] for name in FIGURES} for record in run_figures_by_seed]
            )
            result.append(
                {**labels, "shape": shape, "values": values | _ranks(run_figures_by_seed, shape)}
            )
        result.append({**labels, "shape": ALL, "values": _ranks(run_figures_by_seed, ALL)})
    for arm in setting["teams"]:
        run_figures_by_seed = [records[arm, seed] for seed in range(setting["seeds"])]
        for shape in SHAPES:
            figures = [
                {**record["found"][shape], "seconds": record["seconds"]}
                for record in run_figures_by_seed
            ]
            values = by_seed(figures)
            result.append({"arm": arm, "starts": "unseen", "shape": shape, "values": values})
    return result


def _ranks(figures_by_seed: list[dict[str, Any]], shape: str) -> dict[str, dict[str, float]]:
    """Return the rank correlation of each seed that has one."""
    correlations = {
        str(seed): record[shape]["rank_correlation"] for seed, record in enumerate(figures_by_seed)
    }
    known_correlations = {seed: value for seed, value in correlations.items() if value is not None}
    return {"rank_correlation": known_correlations} if known_correlations else {}


STUDY = Study(
    summary="Agent Swarm: which rewards teach a lead to call as many workers as the task needs",
    page="studies/swarm/page.md",
    hours=0.8,
    setting={"arms": list(ARMS), "teams": list(TEAMS), "seeds": 5, "plays": 200, "changes": []},
    quick={
        "arms": [ANNEALED],
        "teams": [LEAD, JOINT],
        "seeds": 1,
        "plays": 4,
        "changes": ["steps=1", "warmup.updates=1", "warmup.games=6", "rollout.games_per_step=24"],
    },
    cells=cells,
    rows=rows,
)

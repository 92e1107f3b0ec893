"""Does a population add anything to a well regularised mirror? Leduc poker from random weights.

Five arms have the same model, loss, step size and number of games (with games between members): the
mirror, fictitious self-play, prioritised fictitious self-play, PSRO, and a league with exploiters.
The results per seed are the exact NashConv of several answers of each run, at each snapshot and at
the end. Tabular algorithms, which learn from exact payoffs, are measured for comparison.

The column `starts` is "all", as NashConv covers every deal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import (
    Cell,
    CellRecords,
    Row,
    RunCommand,
    metrics,
    module_cell,
    seed_rows,
    training_cell,
)
from sparring.core.files import parse_json
from sparring.run.folder import RunFolder
from studies.common.study import Setting, Study
from studies.leduc_league.answers_along import BEST
from studies.self_play.references import REFERENCES

ANSWERS_MODULE = "studies.leduc_league.answers_along"
TABULAR_MODULE = "studies.self_play.cell"
GAME = "leduc_poker"
GAP = "NashConv"
AFTER = f"{GAP} after "  # followed by the number of games, or of answers of a tabular algorithm
ANSWERS = ["last", "average", "uniform", BEST]
ANSWERS_WITH_PAYOFFS = [
    "last",
    "average",
    "uniform",
    "nash",
    BEST,
]  # for arms whose members play each other
RECIPE = "league/leduc-mirror"
# 540 steps and 15 times 4,096 games between members: as many games as in 600 steps
GAMES_BETWEEN_MEMBERS = (
    *("steps=540", "league.every=36", "league.plays=4096", "checkpoint.every=36"),
    "league.answer=nash",
)
LEARNERS = "{main: {share: 2}, main_exploiter: {}, league_exploiter: {}}"
# arm: overrides of the recipe, and the measured answers
ARMS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "mirror": ((), ANSWERS),
    "FSP": (
        ("matchmaker={name: meta_strategy, solver: uniform}", "league.answer=uniform"),
        ANSWERS,
    ),
    "PFSP": (
        (
            "matchmaker={name: pfsp, past: 0.5, power: 2, weighting: hard}",
            *("league.payoff_decay=0.05", "league.answer=uniform"),
        ),
        ANSWERS,
    ),
    "PSRO": (
        ("matchmaker={name: meta_strategy, solver: nash}", *GAMES_BETWEEN_MEMBERS),
        ANSWERS_WITH_PAYOFFS,
    ),
    "exploiters": (
        (
            *("matchmaker={name: alphastar}", *GAMES_BETWEEN_MEMBERS, "league.keep=6"),
            *("league.payoff_decay=0.05", f"league.learners={LEARNERS}"),
        ),
        ANSWERS_WITH_PAYOFFS,
    ),
}
TABULAR_ALGORITHMS = ("CFR", "PSRO Nash", "double oracle", "XDO")
MEASURED_AT = (1, 2, 3, 5, 8, 12, 16, 24, 36, 50)


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; a solver that draws nothing has one seed."""
    result = []
    for seed in range(setting["seeds"]):
        result += [_arm_cell(arm, seed, setting) for arm in setting["arms"]]
        result += [
            _tabular_cell(name, seed, setting)
            for name in setting["tables"]
            if seed == 0 or name not in REFERENCES
        ]
    return result


def _arm_cell(arm: str, seed: int, setting: Setting) -> Cell:
    """Return the cell of an arm with a seed."""
    changes, answers = ARMS[arm]
    words = [*changes, f"seed={seed}", "threads=1", *setting["changes"]]
    return training_cell(
        (arm, seed), f"{arm}-{seed}", RECIPE, words, partial(run_figures, answers=answers)
    )


def _tabular_cell(name: str, seed: int, setting: Setting) -> Cell:
    """Return the cell of a tabular algorithm with a seed."""
    inputs = {"algorithm": name, "games": [GAME], "at": setting["at"], "most": {}, "seed": seed}
    return module_cell(TABULAR_MODULE, inputs, key=(name, seed), name=f"table {name}-{seed}")


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, answers: list[str]
) -> dict[str, Any]:
    """Return the NashConv of each answer of a run, at the end and after numbers of games.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs other commands.
        answers: the measured answers.
    """
    lines, config = metrics(run), RunFolder.open(run).config()
    file = run / "answers.json"
    run_command(["python", "-m", ANSWERS_MODULE, str(run), json.dumps(answers), str(file)])
    along = parse_json(file.read_bytes())
    ends = {answer: along[-1][answer] for answer in answers}
    return {
        "answers": {
            answer: {GAP: ends[answer], **curve(along, answer, config)} for answer in answers
        },
        "plays": num_plays(lines[-1]["step"], config),
        "legal replies": lines[-1]["legal_rate"],
    }


def curve(
    along: list[Mapping[str, Any]], answer: str, config: Mapping[str, Any]
) -> dict[str, float]:
    """Return an answer's NashConv after each number of plays, from the figures of checkpoints."""
    return {f"{AFTER}{num_plays(point['step'], config)}": point[answer] for point in along}


def num_plays(step: int, config: Mapping[str, Any]) -> int:
    """Return the number of games of a run up to a step, with games between members."""
    league = config["league"]
    taken = step // league["every"] if league["every"] else 0
    return int(step * config["rollout"]["games_per_step"] + taken * league["plays"])


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row per arm and answer, and one per tabular algorithm, with each seed's values."""
    apart: dict[tuple[Any, ...], dict[str, Any]] = {}
    for (name, seed), record in records.items():
        distances = record["found"]
        if name not in ARMS:
            values = {AFTER + n: gap for n, gap in _after(distances[GAME])}
            end = {GAP: distances[GAME]["NashConv, end"]}
            apart["table", name, "its own", seed] = {**record, "found": {**end, **values}}
            continue
        rest = {"plays": distances["plays"], "legal replies": distances["legal replies"]}
        for answer, figures in distances["answers"].items():
            apart["model", name, answer, seed] = {**record, "found": {**figures, **rest}}

    def labels(kind: str, name: str, answer: str) -> Row:
        return {"policy": kind, "arm": name, "answer": answer, "starts": "all"}

    return seed_rows(apart, labels, dict)


def _after(distances: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return (number of answers, NashConv) during a tabular algorithm."""
    return [(name.removeprefix(AFTER), gap) for name, gap in distances.items() if AFTER in name]


STUDY = Study(
    summary="Leduc poker from random weights: a population compared with self-play, 3 seeds",
    page="studies/leduc_league/page.md",
    hours=1.0,
    setting={
        "seeds": 3,
        "arms": list(ARMS),
        "tables": list(TABULAR_ALGORITHMS),
        "at": list(MEASURED_AT),
        "changes": [],
    },
    quick={
        "seeds": 1,
        "arms": ["mirror", "PSRO"],
        "tables": ["CFR"],
        "at": [1, 2],
        "changes": [
            *("steps=2", "rollout.games_per_step=32", "league.every=1"),
            *("checkpoint.every=1", "evaluation.every=2"),
        ],
    },
    cells=cells,
    rows=rows,
)

"""Teams of tiny language models in two of FXP's matrix games: self-play, PSRO, cross-play.

The results per seed are the exact team exploitability and one-seat exploitability of each answer at
the end, the team exploitability during training, and the share of legal replies in the last step.

The column `starts` is "all", as there is one initial state.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from studies.common.study import Setting, Study

PSRO, FXP = "league/teams-psro-tiny", "league/teams-fxp-tiny"
GAMES = {"example": 3, "rock_paper_scissors": 2}  # members of a team
TEAM, ONE = (f"{who}_exploitability/team_matrix" for who in ("team", "one_seat"))
AFTER = "team after "  # followed by a number of games
MIRROR = "matchmaker={name: mirror}"
UNIFORM_MIXTURE = "matchmaker={name: meta_strategy, solver: uniform, own: 0.99}"
KEEP_WEIGHTS, NEVER_RESTART = "league.restart=false", "league.learners.counter.restart=0.0"
# arm: recipe, changes, and the answers that are measured; the answer of the run is the first one
ARMS: dict[str, tuple[str, list[str], list[str]]] = {
    "SP": (PSRO, [MIRROR, KEEP_WEIGHTS, "league.answer=last"], ["last"]),
    "FSP": (PSRO, [UNIFORM_MIXTURE, KEEP_WEIGHTS, "league.answer=uniform"], ["uniform"]),
    "PSRO Nash": (PSRO, [], ["nash"]),
    "FXP": (FXP, [], ["nash", "last"]),
    "FXP, one counter": (FXP, [NEVER_RESTART], ["nash", "last"]),
}
ARMS_WITH_PAYOFFS = ("PSRO Nash", "FXP", "FXP, one counter")  # arms whose members play each other


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        cell(arm, game, seed, setting)
        for seed in range(setting["seeds"])
        for game in setting["games"]
        for arm in setting["arms"]
    ]


def cell(arm: str, game: str, seed: int, setting: Setting) -> Cell:
    """Return the cell of an arm; all arms have equal games, including those of members."""
    recipe, changes, answers = ARMS[arm]
    steps, every, games = (setting[name] for name in ("steps", "every", "games per step"))
    among = setting["plays"] * (steps // every)
    steps, plays = (
        (steps, setting["plays"]) if arm in ARMS_WITH_PAYOFFS else (steps + among // games, 0)
    )
    words = [
        f"seed={seed}",
        "threads=1",
        f"environments.0.options={{game: {game}, members: {GAMES[game]}}}",
        *(f"steps={steps}", f"league.every={every}", f"evaluation.every={every}"),
        *(f"league.plays={plays}", f"rollout.games_per_step={games}"),
        *changes,
        *setting["changes"],
    ]
    name = f"{arm}-{game}-{seed}".replace(",", "")
    return training_cell(
        (arm, game, seed), name, recipe, words, partial(run_figures, answers=answers, games=games)
    )


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, answers: list[str], games: int
) -> dict[str, Any]:
    """Return the figures of a run.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs other commands.
        answers: the measured answers; the first one is measured at each evaluation of the run.
        games: number of games of a step.
    """
    lines = metrics(run)
    evaluated = [line for line in lines if team_exploitability(line) is not None]
    curve = {line["step"] * games: team_exploitability(line) for line in evaluated}
    by_answer = {answers[0]: evaluated[-1]}
    for answer in answers[1:]:
        words = ["sparring", "evaluate", str(run), "--answer", answer, "--games", "2", "--json"]
        by_answer[answer] = json.loads(run_command(words))["figures"]
    return {
        "answers": {
            name: {"team": team_exploitability(figures), "one seat": figures[ONE]}
            for name, figures in by_answer.items()
        },
        "curve": {f"{AFTER}{plays}": value for plays, value in curve.items()},
        "legal replies": lines[-1]["legal_rate"],
    }


def team_exploitability(figures: dict[str, float]) -> float | None:
    """Return the team exploitability among some figures, or None."""
    return figures.get(TEAM)


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per game, arm and answer, with the values of each seed."""
    apart: dict[tuple[Any, ...], dict[str, Any]] = {}
    for (arm, game, seed), record in records.items():
        measured_ = record["found"]
        for index, (answer, figures) in enumerate(measured_["answers"].items()):
            values = {**figures, "legal replies": measured_["legal replies"]}
            values |= measured_["curve"] if index == 0 else {}
            apart[arm, game, answer, seed] = {**record, "found": values}

    def labels(arm: str, game: str, answer: str) -> Row:
        row_labels = {"game": game, "members": GAMES[game], "method": arm, "answer": answer}
        return {**row_labels, "starts": "all"}

    return seed_rows(apart, labels, dict)


STUDY = Study(
    summary="teams of tiny models in two of FXP's games: self-play, PSRO, cross-play",
    page="studies/fxp/page.md",
    hours=0.4,
    setting={
        "games": list(GAMES),
        "arms": list(ARMS),
        "steps": 60,
        "every": 10,
        "plays": 512,
        "games per step": 128,
        "seeds": 3,
        "changes": [],
    },
    quick={
        "games": ["example"],
        "arms": ["SP", "FXP"],
        "steps": 2,
        "every": 1,
        "plays": 32,
        "games per step": 16,
        "seeds": 1,
        "changes": ["warmup.updates=1"],
    },
    cells=cells,
    rows=rows,
)

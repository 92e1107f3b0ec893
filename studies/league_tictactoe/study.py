"""Can tic-tac-toe be learned only from league members? A league and self-play, with 3 seeds.

The results per seed are the shares of games won, and won or drawn, against a random player and
against MCTS, as X and as O; the shares won or drawn at every evaluation of the run; and the share
of different episodes in the last step.

The column `starts` is "all", as there is one initial state. Positions of training can occur again
in the matches: tic-tac-toe has only 5,478 positions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from sparring.run.folder import RunFolder
from studies.common.study import Setting, Study

RECIPE = "league/tictactoe-tiny"
ARMS: dict[str, list[str]] = {
    "league": [],
    "mirror": ["matchmaker=mirror"],  # snapshots are saved but never played
}
OPPONENTS = {"random": "random", "mcts": "mcts simulations=100"}
SHARES = ("win", "win_or_draw")
AFTER = " after "  # between a figure's name and a number of games


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    measure = partial(run_figures, games=setting["games"])
    return [
        training_cell(
            (arm, seed),
            f"{arm}-{seed}",
            RECIPE,
            [f"seed={seed}", "threads=1", *changes, *setting["changes"]],
            measure,
        )
        for seed in range(setting["seeds"])
        for arm, changes in ARMS.items()
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand, *, games: int) -> dict[str, Any]:
    """Return the figures of a run.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs the matches.
        games: number of games of each match.
    """
    lines = metrics(run)
    words = ["sparring", "evaluate", str(run), "--games", str(games), "--no-exact", "--json"]
    for opponent in OPPONENTS.values():
        words += ["--opponent", opponent]
    matches = json.loads(run_command(words))["matches"]
    plays = int(RunFolder.open(run).config()["rollout"]["games_per_step"])
    return {
        **{name: value for match in matches for name, value in shares(match)},
        "distinct plays": lines[-1]["distinct_share"],
        **{name: value for line in lines for name, value in figures_during_training(line, plays)},
    }


def figure(role: str, opponent: str, share: str) -> str:
    """Return the name of a share, e.g. "X against mcts, win_or_draw"."""
    return f"{role} against {opponent}, {share}"


def shares(match: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return (figure, value) of a match."""
    role, opponent = match["role"], match["opponent"]
    return [(figure(role, opponent, share), match["intervals"][share]["mean"]) for share in SHARES]


def figures_during_training(line: Mapping[str, Any], plays: int) -> list[tuple[str, float]]:
    """Return (figure after a number of games, value) of an evaluation in training.

    Args:
        line: the metrics of a step.
        plays: number of episodes of a step.
    """
    points = []
    for name, value in line.items():
        kind, *parts = name.split("/")
        if kind == "match" and parts[-1] == "win_or_draw":
            _, opponent, role, share = parts
            points.append((f"{figure(role, opponent, share)}{AFTER}{line['step'] * plays}", value))
    return points


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm, with the values of each seed."""

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": "all"}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="tic-tac-toe trained only against league members, and by mirror self-play, 3 seeds",
    page="studies/league_tictactoe/page.md",
    hours=1.0,
    setting={"seeds": 3, "games": 1000, "changes": []},
    quick={
        "seeds": 1,
        "games": 4,
        "changes": ["steps=2", "warmup.updates=2", "rollout.games_per_step=32", "league.every=1"],
    },
    cells=cells,
    rows=rows,
)

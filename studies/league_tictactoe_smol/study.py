"""Do 640 games of SmolLM2 in tic-tac-toe stay different from each other? A league, and self-play.

The results per seed are, for games against itself, the number of different ones, the number with
the commonest course, and the share of legal replies with its interval; the shares of games won, and
won or drawn, against a random player, as X and as O; and the share of different games in every
step. The arm "start" is the model after the warm-up with the same seed, with which all other arms
begin.

The column `starts` is "all", as there is one initial state.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from sparring.run.folder import RunFolder
from studies.common.study import Setting, Study
from studies.league_tictactoe.study import AFTER, shares

RECIPE = "league/tictactoe-smol"
PLAIN = "losses=[{name: ppo_clip}, {name: entropy_bonus, weight: 0.005}]"  # mars/tictactoe-smol's
START, LEAGUE, MIRROR = "start", "league", "mirror"
ARMS: dict[str, list[str]] = {
    # one step that changes no weights
    START: ["steps=1", "rollout.games_per_step=2", "learner.learning_rate=0"],
    LEAGUE: [],
    MIRROR: ["matchmaker=mirror", PLAIN],  # snapshots are saved but never played
}
OPPONENT = "random"
DIFFER = "different plays"
COMMON = "plays of the commonest course"
LEGAL = "legal replies"
LOW, HIGH = f"{LEGAL}, low", f"{LEGAL}, high"
ALONG = f"share of different plays{AFTER}"  # followed by the number of games


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; the mirror may have fewer seeds."""
    measure = partial(run_figures, games=setting["games"], plays=setting["plays"])
    return [
        training_cell(
            (arm, seed),
            f"{arm}-{seed}",
            RECIPE,
            [f"seed={seed}", "threads=1", *setting["changes"], *ARMS[arm]],
            measure,
        )
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
        if arm != MIRROR or seed < setting["mirrors"]
    ]


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, games: int, plays: int
) -> dict[str, Any]:
    """Return the figures of a run.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: function that runs the matches.
        games: number of games of each match.
        plays: number of games of the policy against itself.
    """
    words = ["sparring", "evaluate", str(run), "--games", str(games), "--opponent", OPPONENT]
    document = json.loads(run_command([*words, "--self-plays", str(plays), "--no-exact", "--json"]))
    (game,) = document["self_plays"]
    illegal = game["illegal"]
    step_plays = int(RunFolder.open(run).config()["rollout"]["games_per_step"])
    return {
        DIFFER: game["distinct"],
        COMMON: game["commonest"],
        LEGAL: 1.0 - illegal["mean"],
        LOW: 1.0 - illegal["high"],
        HIGH: 1.0 - illegal["low"],
        **{name: value for match in document["matches"] for name, value in shares(match)},
        **{f"{ALONG}{line['step'] * step_plays}": line["distinct_share"] for line in metrics(run)},
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm, with the values of each seed."""

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": "all", "plays": setting["plays"], "games": setting["games"]}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="SmolLM2 in tic-tac-toe: diversity after 640 episodes, in a league and in self-play",
    page="studies/league_tictactoe_smol/page.md",
    hours=1.0,
    setting={
        "seeds": 3,
        "mirrors": 1,
        "arms": list(ARMS),
        "games": 128,
        "plays": 64,
        "changes": [],
    },
    quick={
        "seeds": 1,
        "arms": [START, LEAGUE],
        "games": 2,
        "plays": 2,
        "changes": [
            "steps=2",
            "warmup.updates=1",
            "warmup.games=2",
            "rollout.games_per_step=2",
            "league.every=1",
        ],
    },
    cells=cells,
    rows=rows,
)

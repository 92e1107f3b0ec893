"""Does an agent learn about its opponent within an episode? Trials of three attempts, from scratch.

There are two games with exact ceilings: rock, paper, scissors against players who prefer one move,
and Kuhn poker against MAGE's three bots. All arms have equally many games. The results per seed,
role and attempt are the expected returns against opponents of training and against held-out
opponents, as a share of the headroom between the best single policy and the best response. They are
computed from the policy's probabilities in every conversation, so they have no sampling noise; the
returns of sampled trials are also stored.

Every attempt has a new deal. The column `starts` is "all": no initial state can be memorised.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed, training_cell
from sparring.config.parts import to_option_text
from sparring.config.recipe import load_recipe
from studies.common.study import Setting, Study

GAMES = {"rock": "mage/rock-tiny", "kuhn": "mage/kuhn-tiny"}
CUMULATIVE, DIFFERENTIAL, RELEASED = "cumulative", "differential", "released"
SHARED, MIXED, SINGLE = "shared", "mixed", "single"
ANYONE = "matchmaker={name: mixed, past: 0.0, bots: {anyone: 1.0}}"
ARMS = (CUMULATIVE, DIFFERENTIAL, RELEASED, SHARED, MIXED, SINGLE)


def bots_as_player(recipe: str) -> dict[str, Any]:
    """Return a player that draws one of a recipe's bots by their shares."""
    data = load_recipe(recipe)
    shares = data["matchmaker"]["bots"]
    players = {}
    for label, bot in data["bots"].items():
        name, options = bot["name"], {key: bot[key] for key in bot if key != "name"}
        players[to_option_text(name, options)] = shares[label]
    return {"name": "mixture", "players": players}


def overrides_of_arm(game: str, arm: str) -> list[str]:
    """Return the overrides of an arm in the recipe of a game."""
    if arm == DIFFERENTIAL:
        return ["credit.pay=differential"]
    if arm == RELEASED:
        return ["credit={name: mage, preset: as_released}"]
    if arm == SHARED:
        return ["credit.by_attempt=false"]
    if arm == MIXED:  # an opponent for each episode of a group, not one for the group
        return [f"bots={{anyone: {json.dumps(bots_as_player(GAMES[game]))}}}", ANYONE]
    if arm == SINGLE:  # equally many games, each in a separate episode
        return [
            "environments.0.options.attempts=1",
            "rollout.group_size=24",
            "rollout.games_per_step=1536",
        ]
    return []


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    games = setting["games_per_role"]
    return [
        training_cell(
            (game, arm, seed),
            f"{game}-{arm}-{seed}",
            GAMES[game],
            [
                f"seed={seed}",
                "threads=1",
                "evaluation.every=100000",
                *overrides_of_arm(game, arm),
                *setting["changes"],
            ],
            partial(run_figures, games=games, seed=seed),
        )
        for seed in range(setting["seeds"])
        for game in setting["games"]
        for arm in setting["arms"]
    ]


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, games: int, seed: int
) -> list[dict[str, Any]]:
    """Return the rows of a run's opponent pools."""
    return evaluate_pools(run, run_command, games, f"--seed={seed}")


def evaluate_pools(
    run: Path, run_command: RunCommand, games: int, *more: str
) -> list[dict[str, Any]]:
    """Return the results of `sparring evaluate --adaptation` for the opponent pools of a run.

    Args:
        run: folder of the run.
        run_command: function that runs the command.
        games: number of trials per role and opponent.
        more: additional arguments of the command.
    """
    words = ["sparring", "evaluate", str(run), "--adaptation", "--games", str(games), *more]
    document = json.loads(run_command([*words, "--oracle=none", "--json"]))
    return [row for row in document["adaptation"] if row["opponent"] is None]


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per game, arm, role and pool, with the values of each seed."""
    result = []
    for game in setting["games"]:
        for arm in setting["arms"]:
            ran = [records[game, arm, seed]["found"] for seed in range(setting["seeds"])]
            for index, row in enumerate(ran[0]):
                figures = [_figures(rows[index]) for rows in ran]
                labels = {"game": game, "arm": arm, "role": row["role"], "starts": "all"}
                labels |= {"met": row["trained"]}
                exact = {"best": row["best"], "fixed": row["fixed"], "ceiling": row["ceiling"]}
                result.append({**labels, **exact, "values": by_seed(figures)})
    return result


def _figures(row: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a pool by attempt.

    They are the exact share of the headroom that is closed, return and illegal mass, and the mean
    return of sampled trials.
    """
    exact = row["exact"]
    by_attempt = {
        "closed": exact["closed"],
        "return": exact["returns"],
        "illegal": exact["illegal"],
        "sampled": [attempt["mean"] for attempt in row["attempts"]],
    }
    return {
        f"{name} {index}": value
        for name, values in by_attempt.items()
        for index, value in enumerate(values, 1)
    }


STUDY = Study(
    summary="MAGE: do agents of the tiny model learn about their opponent within three attempts",
    page="studies/mage/page.md",
    hours=1.3,
    setting={
        "games": list(GAMES),
        "arms": list(ARMS),
        "seeds": 5,
        "games_per_role": 1_000,
        "changes": [],
    },
    quick={
        "games": ["rock"],
        "arms": [CUMULATIVE, MIXED, SINGLE],
        "seeds": 1,
        "games_per_role": 20,
        "changes": ["steps=1", "warmup.updates=2", "rollout.games_per_step=24"],
    },
    cells=cells,
    rows=rows,
)

"""MARS's ablations with the tiny model: variants trained on one game or on three games.

"untrained" is the model with which all arms begin: after the warm-up in the words of all six games.
Only the two arms that a claim of the page compares are trained on one game. Cells are ordered by
seed, so that an interrupted study is complete for some seeds.

The column `starts` is "all": tic-tac-toe and connect four have one initial state, the exact figure
of Kuhn poker covers every deal, and other deals are drawn from all deals. Held-out games are a
separate question from initial states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.api.cells import (
    Cell,
    CellRecords,
    Measure,
    Row,
    RunCommand,
    metrics,
    seed_rows,
    training_cell,
)
from sparring.core.files import parse_json
from studies.common.study import Setting, Study

RECIPE = "mars/multi-game-tiny"
SETTING = (  # all arms first imitate legal play of all six games, as in the paper
    "steps=300",
    "warmup.updates=300",
    "warmup.games=96",
    "learner.split=sequences",  # as for the published table
    "evaluation.every=300",
    "evaluation.exact=false",
    "evaluation.opponents=[]",
    "store.every=0",
)
VARIANTS = {  # variant: what differs from MARS
    "full": (),
    "no-turn-level": ("credit.preset=no_turn_level",),
    "no-agent-specific": ("credit.preset=no_agent_specific",),
    "fixed-opponent": ("matchmaker={name: mixed, past: 0.0, bots: {random: 1.0}}",),
    "rae": ("credit.name=rae",),
    "grpo": ("credit.name=grpo", "rollout.group_size=8"),
}
PENALTIES = {
    "tic_tac_toe": 0.5,
    "kuhn_poker": 1.0,
    "hanabi": 0.5,
}  # illegal penalties of the training games
GAMES = {"three games": tuple(PENALTIES), "tic-tac-toe": ("tic_tac_toe",)}
PER_STEP = 128  # games per step of each training game
COMPARED = {  # arms that a claim compares
    "three games": tuple(VARIANTS),
    "tic-tac-toe": ("full", "no-agent-specific"),
}
UNTRAINED = ("none", "untrained")
SUITE = "mars-ablations"
TRAINED = ("tic_tac_toe", "kuhn_poker", "hanabi_mini")
HELD_OUT = ("connect_four", "leduc_poker", "hanabi_simple")


def arms(setting: Setting) -> list[tuple[str, str]]:
    """Return (trained on, variant) of every arm."""
    trained_on = setting.get("trained on", tuple(COMPARED))
    pairs = [
        (on, variant)
        for on, variants in COMPARED.items()
        for variant in variants
        if on in trained_on
    ]
    return [UNTRAINED, *(arm for arm in pairs if arm[1] in setting["variants"])]


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    measure = measure_on_suite(setting.get("games"))
    changes = setting["changes"]
    return [
        cell((*arm, seed), changes, measure)
        for seed in range(setting["seeds"])
        for arm in arms(setting)
    ]


def cell(key: tuple[str, str, int], more: Sequence[str], measure: Measure) -> Cell:
    """Return the cell of (trained on, variant, seed)."""
    trained_on, variant, seed = key
    if variant == "untrained":
        trained_on, variant = "three games", "full"
        others = [change for change in more if not change.startswith("steps=")]
        more = ["steps=1", "learner.learning_rate=0.0", *others]
    overrides = [*arm_changes(trained_on, variant), f"seed={seed}", "threads=1", *more]
    return training_cell(key, "-".join(map(str, key)), RECIPE, overrides, measure)


def arm_changes(trained_on: str, variant: str) -> list[str]:
    """Return the changes to the recipe of a variant trained on three games or on one."""
    games: list[dict[str, Any]] = [
        {"name": "tic_tac_toe", "options": {"style": "brief"}},
        {"name": "kuhn_poker", "options": {"style": "brief"}},
        {"name": "hanabi", "options": {"size": "mini", "style": "brief"}},
        {"name": "connect_four", "options": {"style": "brief"}},
        {"name": "leduc_poker", "options": {"style": "brief"}},
        {"name": "hanabi", "options": {"size": "simple", "style": "brief"}},
    ]
    games[-1]["label"] = "hanabi_simple"
    for game in games:
        if game["name"] in GAMES[trained_on] and "label" not in game:
            game["illegal"] = {"rule": "forfeit", "penalty": PENALTIES[game["name"]]}
        else:
            game["weight"] = 0  # a game of the warm-up only
    plays = f"rollout.games_per_step={PER_STEP * len(GAMES[trained_on])}"
    return [*SETTING, f"environments={json.dumps(games)}", plays, *VARIANTS[variant]]


def measure_on_suite(games: int | None) -> Callable[[Path, str, RunCommand], Any]:
    """Return a function that measures a run on the suite.

    Args:
        games: games per seat in each row; None: the number of the suite.
    """
    fewer = [] if games is None else ["--games", str(games)]

    def measure(run: Path, stdout: str, run_command: RunCommand) -> Any:
        metrics(run)  # raises an error if the run is incomplete
        words = ["sparring", "evaluate", str(run), "--suite", SUITE, *fewer, "--workers", "1"]
        return parse_json(run_command([*words, "--json"]))["rows"]

    return measure


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return figures by name: of each row, and mean scores of training games and held-out games."""
    by_name = {row["name"]: main_figure(row) for row in rows}
    scores = {
        row["name"]: row["overall"]["score"]["mean"] for row in rows if row["kind"] != "exact"
    }
    for name, games in {"three games": TRAINED, "held out": HELD_OUT}.items():
        by_name[name] = sum(scores[game] for game in games) / len(games)
    return by_name


def main_figure(row: Mapping[str, Any]) -> float:
    """Return the main figure of a row."""
    if row["kind"] == "exact":
        exact = (value for name, value in row["figures"].items() if name.startswith("nash_conv"))
        return float(next(exact))
    return float(row["overall"]["return"]["mean"])


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per training set and variant, with the value of each seed."""

    def labels(trained_on: str, variant: str) -> Row:
        return {"trained on": trained_on, "variant": variant, "starts": "all"}

    return seed_rows(records, labels, figures)


STUDY = Study(
    summary="the ablations of MARS with the tiny model, on six games",
    page="studies/mars/page.md",
    hours=0.8,
    setting={"seeds": 3, "variants": list(VARIANTS), "changes": ["steps=100"]},
    quick={
        "seeds": 1,
        "variants": ["full"],
        "changes": ["steps=2", "warmup.updates=2"],
        "trained on": ["three games"],
        "games": 2,
    },
    cells=cells,
    rows=rows,
)

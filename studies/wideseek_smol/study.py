"""WideSeek-R1 with SmolLM2: does a team of a pretrained model learn to search, in sentences?

A lead and up to three workers look for three rows of two columns; the answer is merged from the
workers' notes. The model begins by imitating a scripted team with faults, and learns from item F1
from there. Beside it stand the end of that warm-up, of the same seed, the scripted team itself, and
the model as it was downloaded; these two have nothing to draw but their plays, and one seed. Kept
of self-play on tables that training never met: cells and names found, with the interval over plays,
and legal replies.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, seed_rows
from sparring.config import resolve
from sparring.config.parts import to_option_text
from sparring.config.recipe import load_recipe
from sparring.environments.catalogue import make_game
from studies.common.self_played import (
    TOKENS_FIGURE,
    UNTRAINED,
    Arm,
    arm_cell,
    measure_self_play,
    parse_self_plays,
    sampled_tokens,
    self_play_options,
)
from studies.common.study import Setting, Study

RECIPE = "wideseek/smol"
PRETRAINED, TEACHER, WARM_UP, TRAINED = "pretrained", "teacher", "warm-up", "trained"
FEW = "rollout.games_per_step=4"  # of a step that changes nothing
ARMS: dict[str, Arm] = {
    PRETRAINED: (RECIPE, (*UNTRAINED, FEW, "warmup.updates=0")),
    WARM_UP: (RECIPE, (*UNTRAINED, FEW)),
    TRAINED: (RECIPE, ()),
}
ONCE = (PRETRAINED, TEACHER)
BARE = "non_key_f1"
FIGURES = ("item_f1", "success", "width", "critical_steps", "total_steps")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost; of those who have nothing to draw, the first seed's."""
    plays = setting["plays"]
    return [
        _teacher(seed, plays)
        if arm == TEACHER
        else arm_cell(arm, seed, ARMS[arm], setting, partial(run_figures, plays=plays, seed=seed))
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
        if arm not in ONCE or seed == 0
    ]


def _teacher(seed: int, plays: int) -> Cell:
    """Return the cell of the scripted team that is imitated, on the tables of the others."""
    config = resolve(load_recipe(RECIPE))
    assert config.warmup.player is not None, "the recipe names one"
    environment, player = config.environments[0], config.warmup.player
    game: Any = make_game(environment.name, options=environment.options)
    who = to_option_text(player.name, player.options)
    where = to_option_text(environment.name, game.other_bank())
    words = ("--agent", who, "--environment", where)
    return Cell(
        key=(TEACHER, seed),
        folder=f"{TEACHER}-{seed}",
        command=("sparring", "evaluate", *words, *self_play_options(plays, seed)),
        path_words=(),
        measure=lambda folder, stdout, run_command: _figures(parse_self_plays(stdout), tokens=0.0),
    )


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, plays: int, seed: int
) -> dict[str, Any]:
    """Return the figures of a run's policy in all seats, non-key F1 with its interval over plays.

    Args:
        run: folder of the run.
        stdout: standard output of training.
        run_command: runs the plays that are measured.
        plays: of the run's policy with itself.
        seed: of these plays.
    """
    return _figures(
        measure_self_play(run, run_command, plays=plays, seed=seed), tokens=sampled_tokens(run)
    )


def _figures(plays: list[dict[str, Any]], tokens: float) -> dict[str, Any]:
    """Return what is kept of plays, with the tokens that were sampled in training before them."""
    (game,) = plays  # of one environment
    bare = game["figures"][BARE]
    return {
        "starts": game["starts"],
        "figures": {
            BARE: bare["mean"],
            f"{BARE} low": bare["low"],
            f"{BARE} high": bare["high"],
            **{name: game["figures"][name]["mean"] for name in FIGURES},
            "legal": 1.0 - game["illegal"]["mean"],
            TOKENS_FIGURE: tokens,
        },
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per arm, with the values of each seed."""
    starts = {record["found"]["starts"] for record in records.values()}

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": " ".join(sorted(starts)), "plays": setting["plays"]}

    return seed_rows(records, labels, lambda record: record["figures"])


STUDY = Study(
    summary="WideSeek-R1 with SmolLM2: a lead and three workers, before and after training",
    page="studies/wideseek/page.md",
    hours=1.7,
    setting={
        "arms": [PRETRAINED, TEACHER, WARM_UP, TRAINED],
        "seeds": 3,
        "plays": 200,
        "changes": [],
    },
    quick={
        "arms": [WARM_UP],
        "seeds": 1,
        "plays": 2,
        "changes": ["warmup.updates=1", "warmup.games=2", "rollout.max_new_tokens=4"],
    },
    cells=cells,
    rows=rows,
)

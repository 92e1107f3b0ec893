"""WideSeek-R1 with SmolLM2: does a team of a pretrained model learn to search, in sentences?

A lead and up to three workers look for three rows of two columns; the answer is merged from the
workers' notes. The model begins by imitating random legal commands, which shows it the form of a
call and of a note alone, and learns from item F1 from there. Beside it stand the end of that
warm-up, of the same seed, and the model as it was downloaded. Kept of self-play on tables that
training never met: cells and names found, with the interval over plays, and legal replies.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sparring.experiments.self_played import (
    TOKENS,
    UNTRAINED,
    Arm,
    sampled_tokens,
    self_played,
    trained,
)
from sparring.experiments.study import Ask, Cell, Found, Row, Setting, Study, seed_rows

RECIPE = "wideseek/smol"
PRETRAINED, WARM_UP, TRAINED = "pretrained", "warm-up", "trained"
FEW = "rollout.games_per_step=4"  # of a step that changes nothing
ARMS: dict[str, Arm] = {
    PRETRAINED: (RECIPE, (*UNTRAINED, FEW, "warmup.updates=0")),
    WARM_UP: (RECIPE, (*UNTRAINED, FEW)),
    TRAINED: (RECIPE, ()),
}
BARE = "non_key_f1"
FIGURES = ("item_f1", "success", "width", "critical_steps", "total_steps")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost."""
    return [
        trained(arm, seed, ARMS[arm], setting, partial(measured, plays=setting["plays"], seed=seed))
        for seed in range(setting["seeds"])
        for arm in setting["arms"]
    ]


def measured(run: Path, said: str, ask: Ask, *, plays: int, seed: int) -> dict[str, Any]:
    """Return the figures of a run's policy in all seats, non-key F1 with its interval over plays.

    Args:
        run: its folder.
        said: what training printed.
        ask: runs the plays that are measured.
        plays: of the run's policy with itself.
        seed: of these plays.
    """
    (found,) = self_played(run, ask, plays=plays, seed=seed)
    bare = found["figures"][BARE]
    return {
        "starts": found["starts"],
        "figures": {
            BARE: bare["mean"],
            f"{BARE} low": bare["low"],
            f"{BARE} high": bare["high"],
            **{name: found["figures"][name]["mean"] for name in FIGURES},
            "legal": 1.0 - found["illegal"]["mean"],
            TOKENS: sampled_tokens(run),
        },
    }


def rows(setting: Setting, kept: Found) -> list[Row]:
    """Return one row per arm, with the values of each seed."""
    starts = {one["found"]["starts"] for one in kept.values()}

    def labels(arm: str) -> Row:
        return {"arm": arm, "starts": " ".join(sorted(starts)), "plays": setting["plays"]}

    return seed_rows(kept, labels, lambda found: found["figures"])


STUDY = Study(
    summary="WideSeek-R1 with SmolLM2: a lead and three workers, before and after training",
    page="docs/reproduction/wideseek.md",
    hours=2.0,
    results="wideseek-smol",
    setting={"arms": list(ARMS), "seeds": 3, "plays": 200, "changes": []},
    quick={
        "arms": [WARM_UP],
        "seeds": 1,
        "plays": 2,
        "changes": ["steps=1", "warmup.updates=1", "warmup.games=2", "rollout.games_per_step=4"],
    },
    cells=cells,
    rows=rows,
)

"""Shared parts of team studies: cells of arms, and self-play of a run's policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, Measure, RunCommand, metrics, training_cell
from sparring.run.folder import RunFolder
from studies.common.study import Setting

TOKENS = "tokens sampled in training"
Arm = tuple[str, tuple[str, ...]]
"""A recipe's name, and changes to it."""

UNTRAINED = ("steps=1", "learner.learning_rate=0.0")  # changes that keep the weights after warm-up
RATE = "{schedule: linear, start: 0.0015, end: 0.0003}"  # learning rate of the team recipes


def freeze_change(policy: str) -> str:
    """Return the change that freezes a policy after the warm-up."""
    return f"policies.{policy}.learner={{learning_rate: 0.0}}"


def unfreeze_change(policy: str) -> str:
    """Return the change that trains a policy that the recipe freezes."""
    return f"policies.{policy}.learner.learning_rate={RATE}"


def arm_cell(arm: str, seed: int, of: Arm, setting: Setting, measure: Measure) -> Cell:
    """Return the cell of an arm and a seed, which is evaluated only at its end.

    Args:
        arm: its name.
        seed: of the run.
        of: its recipe and changes.
        setting: of the study, with "changes" to all arms.
        measure: what is kept of it.
    """
    recipe, arm_changes = of
    always = (f"seed={seed}", "threads=1", "evaluation.every=100000")
    changes = [*always, *setting["changes"], *arm_changes]
    return training_cell((arm, seed), f"{arm}-{seed}", recipe, changes, measure)


def self_played(
    run: Path, run_command: RunCommand, *, plays: int, seed: int
) -> list[dict[str, Any]]:
    """Return the results of ``sparring evaluate RUN --self-plays`` per environment.

    Args:
        run: its folder.
        run_command: runs the command.
        plays: of each environment, the run's policies in all seats.
        seed: of these plays.
    """
    return parse_self_plays(
        run_command(["sparring", "evaluate", str(run), *self_play_options(plays, seed)])
    )


def self_play_options(plays: int, seed: int) -> list[str]:
    """Return the options of `sparring evaluate` for self-play with few other figures."""
    few = ["--games", "2", f"--seed={seed}", "--oracle=none"]
    return ["--self-plays", str(plays), *few, "--json"]


def parse_self_plays(stdout: str) -> list[dict[str, Any]]:
    """Return the self-play results in the output of `sparring evaluate`, per environment."""
    rows: list[dict[str, Any]] = json.loads(stdout)["self_plays"]
    return rows


def sampled_tokens(run: Path) -> float:
    """Return how many tokens all seats of a run have sampled in training."""
    games: int = RunFolder.open(run).config()["rollout"]["games_per_step"]
    return float(
        sum(line["turns_per_game"] * line["reply_tokens"] * games for line in metrics(run))
    )

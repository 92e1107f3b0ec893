"""Shared parts of team studies: cells of arms, and self-play of a run's policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, Measure, RunCommand, metrics, training_cell
from sparring.run.folder import RunFolder
from studies.common.study import Setting

TOKENS_FIGURE = "tokens sampled in training"
Arm = tuple[str, tuple[str, ...]]
"""A recipe's name, and changes to it."""

UNTRAINED = ("steps=1", "learner.learning_rate=0.0")  # changes that keep the weights after warm-up
LEARNING_RATE = (
    "{schedule: linear, start: 0.0015, end: 0.0003}"  # learning rate of the team recipes
)


def freeze_change(policy: str) -> str:
    """Return the change that freezes a policy after the warm-up."""
    return f"policies.{policy}.learner={{learning_rate: 0.0}}"


def unfreeze_change(policy: str) -> str:
    """Return the change that trains a policy that the recipe freezes."""
    return f"policies.{policy}.learner.learning_rate={LEARNING_RATE}"


def arm_cell(
    arm: str, seed: int, recipe_and_changes: Arm, setting: Setting, measure: Measure
) -> Cell:
    """Return the cell of an arm and a seed; its run is evaluated only at the end.

    Args:
        arm: name of the arm.
        seed: seed of the run.
        of: recipe and changes of the arm.
        setting: setting of the study, with "changes" to all arms.
        measure: function that returns the results of the run.
    """
    recipe, arm_changes = recipe_and_changes
    always = (f"seed={seed}", "threads=1", "evaluation.every=100000")
    changes = [*always, *setting["changes"], *arm_changes]
    return training_cell((arm, seed), f"{arm}-{seed}", recipe, changes, measure)


def measure_self_play(
    run: Path, run_command: RunCommand, *, plays: int, seed: int
) -> list[dict[str, Any]]:
    """Return the results of ``sparring evaluate RUN --self-plays`` per environment.

    Args:
        run: folder of the run.
        run_command: function that runs the command.
        plays: episodes of each environment, with the policies of the run in all seats.
        seed: seed of these episodes.
    """
    return parse_self_plays(
        run_command(["sparring", "evaluate", str(run), *self_play_options(plays, seed)])
    )


def self_play_options(plays: int, seed: int) -> list[str]:
    """Return the options of `sparring evaluate` for self-play with few other figures."""
    other_options = ["--games", "2", f"--seed={seed}", "--oracle=none"]
    return ["--self-plays", str(plays), *other_options, "--json"]


def parse_self_plays(stdout: str) -> list[dict[str, Any]]:
    """Return the self-play results in the output of `sparring evaluate`, per environment."""
    rows: list[dict[str, Any]] = json.loads(stdout)["self_plays"]
    return rows


def sampled_tokens(run: Path) -> float:
    """Return the number of tokens that all seats of a run sampled in training."""
    games: int = RunFolder.open(run).config()["rollout"]["games_per_step"]
    return float(
        sum(line["turns_per_game"] * line["reply_tokens"] * games for line in metrics(run))
    )

"""What studies of teams share: the cells of their arms, and plays of a run's policies together."""

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

UNTRAINED = ("steps=1", "learner.learning_rate=0.0")  # changes that leave what the warm-up left
RATE = "{schedule: linear, start: 0.0015, end: 0.0003}"  # of the recipes of teams


def staying(policy: str) -> str:
    """Return the change by which a policy stays as the warm-up left it."""
    return f"policies.{policy}.learner={{learning_rate: 0.0}}"


def learning(policy: str) -> str:
    """Return the change by which a policy that stays in a recipe learns."""
    return f"policies.{policy}.learner.learning_rate={RATE}"


def trained(arm: str, seed: int, of: Arm, setting: Setting, measure: Measure) -> Cell:
    """Return the cell of an arm and a seed, which is measured at its end alone.

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
    """Return what ``sparring evaluate RUN --self-plays`` finds, environment by environment.

    Args:
        run: its folder.
        run_command: runs the command.
        plays: of each environment, the run's policies in all seats.
        seed: of these plays.
    """
    return played(run_command(["sparring", "evaluate", str(run), *playing(plays, seed)]))


def playing(plays: int, seed: int) -> list[str]:
    """Return the words of `sparring evaluate` that ask for self-play and little else."""
    few = ["--games", "2", f"--seed={seed}", "--oracle=none"]
    return ["--self-plays", str(plays), *few, "--json"]


def played(stdout: str) -> list[dict[str, Any]]:
    """Return what `sparring evaluate` has said of self-play, environment by environment."""
    rows: list[dict[str, Any]] = json.loads(stdout)["self_plays"]
    return rows


def sampled_tokens(run: Path) -> float:
    """Return how many tokens all seats of a run have sampled in training."""
    games: int = RunFolder.open(run).config()["rollout"]["games_per_step"]
    return float(
        sum(line["turns_per_game"] * line["reply_tokens"] * games for line in metrics(run))
    )

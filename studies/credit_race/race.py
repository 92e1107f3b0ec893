"""One run of the race: training of a recipe with an estimator, and its distance from an
equilibrium.

    python -m studies.credit_race.race '{"recipe": "kuhn-tiny", "estimator": "mars", ...}' FILE

The distance is NashConv; in cooperative games it is the optimality gap.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.config import RunConfig, resolve
from sparring.config.plugins.registry import required_services
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core.errors import ConfigError, CreditError, MissingError
from sparring.engine.local import LocalEngine
from sparring.measure.credit_lab import bind_estimator
from sparring.run.events import METRICS, read_figures
from sparring.run.folder import RunFolder
from sparring.run.loop import train

DISTANCES = (
    "optimality_gap/",
    "nash_conv/",
)  # the race uses the first of these that a run measures
VERDICT_REWARD = "best_action"  # the reward that estimators with verdicts read
ORACLE = {"name": "cfr"}  # the default oracle


def run_config(recipe: str, changes: Sequence[str], estimator: str, seed: int) -> RunConfig:
    """Return a recipe with an estimator and its requirements: a value loss, or a reward by
    verdicts.

    Raises:
        ConfigError: the recipe or a change to it is wrong.
        UnknownNameError: no such recipe, estimator or option.
        MissingError: the recipe lacks what the estimator needs.
    """
    bound = bind_estimator(estimator)
    data = apply_overrides(load_recipe(recipe), changes)
    data.update(credit=estimator, name="race", seed=seed, threads=1)
    losses = data.get("losses") or [{"name": "ppo_clip"}]
    if VERDICT_REWARD in bound.options.values():
        _add_judge(data)
    if "critic" in required_services(bound) and not _contains_name(losses, "value_loss"):
        data["losses"] = [*losses, {"name": "value_loss"}]
    return resolve(data)


def _contains_name(entries: Sequence[Any], name: str) -> bool:
    """Return whether losses or rewards of a recipe contain this name; an entry may be a text."""
    texts = (entry if isinstance(entry, str) else str(entry.get("name")) for entry in entries)
    return any(text.split(":")[0].split()[:1] == [name] for text in texts)


def _add_judge(data: dict[str, Any]) -> None:
    """Add the reward of judged turns to a recipe, and an oracle to each game without one."""
    rewards = data.get("rewards") or []
    if _contains_name(rewards, VERDICT_REWARD):
        return
    data["rewards"] = [*rewards, {"name": VERDICT_REWARD}]
    data["environments"] = [
        game if game.get("oracle") else {**game, "oracle": ORACLE} for game in data["environments"]
    ]
    data["reorder_outcomes"] = True  # the estimators weight unscaled components


def curve(lines: Sequence[Mapping[str, Any]], games_per_step: int) -> list[list[float]]:
    """Return (games played, distance) of every measurement of a run.

    Raises:
        ConfigError: the run measured no exact distance.
    """
    for prefix in DISTANCES:
        points = []
        for line in lines:
            distances = [
                value for key, value in line.items() if key.startswith(prefix) and value is not None
            ]
            if distances:
                points.append([float(line["step"] * games_per_step), float(np.mean(distances))])
        if points:
            return points
    raise ConfigError(
        "The race needs an exact distance: a game small enough, evaluation.exact=true and "
        "max_states large enough."
    )


def run(folder: Path, recipe: str, changes: Sequence[str], estimator: str, seed: int) -> Any:
    """Train one run and return its curve, or the reason why the estimator is refused.

    Args:
        folder: folder of the run; existing files are replaced.
        recipe: name of the recipe.
        changes: overrides of the recipe, as on the command line.
        estimator: the estimator with its options, as on the command line.
        seed: seed of the run.

    Returns:
        {"curve": [[games, distance], ...]} or {"refused": why}.
    """
    try:
        config = run_config(recipe, changes, estimator, seed)
    except MissingError as error:
        return {"refused": str(error)}
    try:
        with RunFolder.create(folder, to_yaml(config), overwrite=True) as place:
            train(config, LocalEngine(config), place)
    except CreditError as error:
        return {"refused": str(error)}
    return {"curve": curve(read_figures(folder / METRICS), config.rollout.games_per_step)}


if __name__ == "__main__":
    path = Path(sys.argv[2])
    path.write_text(json.dumps(run(path.parent / "run", **json.loads(sys.argv[1]))), "utf-8")

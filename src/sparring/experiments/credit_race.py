"""Races of estimators: one recipe trained with each of them, measured exactly.

All play equal games, over several seeds.

What is compared is how far play ends from the best (NashConv, or in cooperative games the
optimality gap), and the mean of that distance over the measurements of a run, which is smaller the
earlier a run gets there. Every run has a folder of its own: a race that was interrupted goes on
where it stopped, and a race of more estimators or seeds adds to one that is done.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparring.config import RunConfig, resolve
from sparring.engine.local import LocalEngine
from sparring.errors import CheckpointError, ConfigError, CreditError, MissingError
from sparring.guard import Watch
from sparring.measure.lab_plan import bind_estimator
from sparring.ops.statistics import mean_interval
from sparring.recipe import apply_overrides, load_recipe, to_yaml
from sparring.registry import asks
from sparring.run import checkpoint
from sparring.run.changes import check_same
from sparring.run.events import METRICS, read_figures
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.signals import GracefulStop
from sparring.system.pool import WorkerPool

DISTANCES = ("optimality_gap/", "nash_conv/")  # the first that a run measures is what is raced for
JUDGED = "best_action"  # the reward that estimators of judged turns read
ORACLE = {"name": "cfr"}  # who judges them, where the recipe names nobody


@dataclass(frozen=True, kw_only=True, slots=True)
class RacePlan:
    """What is raced.

    A recipe with changes, which estimators, over how many seeds, where the runs are kept.
    """

    recipe: str
    overrides: tuple[str, ...]
    estimators: tuple[str, ...]
    seeds: int
    folder: Path
    workers: int = 1


def cell_config(plan: RacePlan, estimator: str, seed: int) -> RunConfig:
    """Return the configuration of one run: the recipe with this estimator, and what it needs.

    A loss for its critic, a judge's reward.

    Raises:
        ConfigError: the recipe or a change to it is wrong.
        UnknownNameError: no such recipe, estimator or option.
    """
    bound = bind_estimator(estimator)
    data = apply_overrides(load_recipe(plan.recipe), plan.overrides)
    data.update(credit=estimator, name=f"race-{file_part(estimator)}", seed=seed, threads=1)
    losses = data.get("losses") or [{"name": "ppo_clip"}]
    if JUDGED in bound.options.values():
        _add_judge(data)
    if "critic" in asks(bound) and not _has(losses, "value_loss"):
        data["losses"] = [*losses, {"name": "value_loss"}]
    return resolve(data)


def file_part(estimator: str) -> str:
    """Return an estimator as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", estimator)


def _has(entries: Sequence[Any], name: str) -> bool:
    """Return whether one of a recipe's losses or rewards is of this name.

    Each is a mapping or a text.
    """
    texts = (entry if isinstance(entry, str) else str(entry.get("name")) for entry in entries)
    return any(text.split(":")[0].split()[:1] == [name] for text in texts)


def _add_judge(data: dict[str, Any]) -> None:
    """Add to a recipe's data the reward of judged turns; nothing if it is paid already.

    Every game that has no oracle gets one.
    """
    rewards = data.get("rewards") or []
    if _has(rewards, JUDGED):
        return
    data["rewards"] = [*rewards, {"name": JUDGED}]
    data["environments"] = [
        game if game.get("oracle") else {**game, "oracle": ORACLE} for game in data["environments"]
    ]
    # the estimators want components whole: they weigh them themselves
    data["reorder_outcomes"] = True


def run_cell(plan: RacePlan, estimator: str, seed: int) -> dict[str, Any]:
    """Train one run, or go on with it, or read it if it is done.

    Returns:
        {"curve": [[games, distance], ...]}, or {"refused": why} where the estimator cannot use what
        the recipe gives it.
    """
    try:
        config = cell_config(plan, estimator, seed)
    except MissingError as error:
        return {"refused": str(error)}
    path = plan.folder / f"{file_part(estimator)}-{seed}"
    try:
        found = checkpoint.load_latest(path) if path.exists() else None
    except CheckpointError:
        found = None  # nothing of it can be read: it is run anew
    folder = (
        RunFolder.open(path)
        if found
        else RunFolder.create(path, to_yaml(config), overwrite=path.exists())
    )
    if found:
        check_same(folder, config.model_dump(mode="json"))
    if found is None or found.step < config.steps:
        try:
            with folder, GracefulStop() as stop, Watch(config.call_seconds):
                if not train(
                    config, LocalEngine(config), folder, resume=found is not None, stop=stop
                ).finished:
                    raise KeyboardInterrupt  # saved: the next race goes on from here
        except CreditError as error:
            return {"refused": str(error)}
    return {"curve": curve(read_figures(path / METRICS), config.rollout.games_per_step)}


def curve(lines: Sequence[dict[str, Any]], games_per_step: int) -> list[list[float]]:
    """Return (games played, distance) of every measurement of a run.

    Raises:
        ConfigError: the run measured no exact distance.
    """
    for prefix in DISTANCES:
        points = []
        for line in lines:
            found = [
                value for key, value in line.items() if key.startswith(prefix) and value is not None
            ]
            if found:
                points.append([float(line["step"] * games_per_step), float(np.mean(found))])
        if points:
            return points
    raise ConfigError(
        "The race needs an exact distance: a game small enough, evaluation.exact=true and "
        "max_states large enough."
    )


def race(plan: RacePlan, *, watch: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Run all cells and return their figures as plain data: one row per estimator, best first.

    Args:
        plan: what is raced.
        watch: called with a line of progress after every run.

    Raises:
        ConfigError: a wrong recipe, or one that is not measured exactly.
        RolloutError: a worker process died.
    """
    for estimator in plan.estimators:
        with contextlib.suppress(MissingError):  # its row will say so
            cell_config(plan, estimator, 0)
    jobs = [[estimator, seed] for seed in range(plan.seeds) for estimator in plan.estimators]
    cells: dict[tuple[str, int], dict[str, Any]] = {}
    for done, ((estimator, seed), answer) in enumerate(_answers(plan, jobs), start=1):
        cells[estimator, seed] = answer
        if watch:
            said = (
                f"refused: {answer['refused']}"
                if "refused" in answer
                else f"ends at {answer['curve'][-1][1]:.3f}"
            )
            watch(f"{done}/{len(jobs)} {estimator} seed {seed} {said}")
    rows = [
        _row(estimator, [cells[estimator, seed] for seed in range(plan.seeds)])
        for estimator in plan.estimators
    ]
    settings = {"recipe": plan.recipe, "overrides": list(plan.overrides), "seeds": plan.seeds}
    return {"settings": settings, "rows": sorted(rows, key=_rank)}


def _answers(plan: RacePlan, jobs: list[list[Any]]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield every job with its answer, in this process or in several."""
    if plan.workers == 1:
        for job in jobs:
            yield job, run_cell(plan, *job)
        return
    settings = {
        "recipe": plan.recipe,
        "overrides": list(plan.overrides),
        "seeds": plan.seeds,
        "folder": str(plan.folder),
    }
    with WorkerPool(make_runner, settings, plan.workers) as pool:
        yield from pool.answers(jobs)


def make_runner(settings: dict[str, Any]) -> Callable[[list[Any]], dict[str, Any]]:
    """Return what a worker process answers its jobs with."""
    plan = RacePlan(
        recipe=settings["recipe"],
        overrides=tuple(settings["overrides"]),
        estimators=(),
        seeds=settings["seeds"],
        folder=Path(settings["folder"]),
    )
    return lambda job: run_cell(plan, *job)


def _row(estimator: str, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return an estimator's figures over its seeds."""
    refused = next((cell["refused"] for cell in cells if "refused" in cell), None)
    if refused is not None:
        return {"estimator": estimator, "refused": refused}
    curves = [np.array(cell["curve"]) for cell in cells]
    ends, means = [float(own[-1, 1]) for own in curves], [float(own[:, 1].mean()) for own in curves]
    middle = np.mean([own[:, 1] for own in curves], axis=0)
    points = [
        [games, value]
        for games, value in zip(curves[0][:, 0].tolist(), middle.tolist(), strict=True)
    ]
    spans = {"final": _interval(ends), "mean": _interval(means)}
    return {"estimator": estimator, **spans, "ends": ends, "means": means, "curve": points}


def _interval(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean and Student's 95 % interval over seeds; no interval for one seed."""
    found = mean_interval(values)
    ends = {"mean": found.mean, "low": found.low, "high": found.high}
    return {key: value if math.isfinite(value) else None for key, value in ends.items()}


def _rank(row: dict[str, Any]) -> tuple[bool, float, str]:
    """Return what rows are sorted by: the smallest final distance first, the refused last."""
    return ("refused" in row, row["final"]["mean"] if "final" in row else 0.0, row["estimator"])

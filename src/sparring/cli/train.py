"""sparring train"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sparring.config import RunConfig, resolve
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe
from sparring.errors import ConfigError
from sparring.recipe import apply_overrides, load_recipe, to_yaml
from sparring.report.catalogue import check_metrics
from sparring.report.html import write_report
from sparring.report.progress import Watcher
from sparring.run.folder import RunFolder
from sparring.run.loop import Summary
from sparring.run.loop import train as run_training
from sparring.run.signals import GracefulStop


def train(
    recipe: Annotated[str | None, typer.Argument(help="A recipe's name or the path of a YAML file; may be left out with --resume.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes to the recipe, e.g. seed=1 learner.learning_rate=0.001.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME-seedN.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last good checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run that is in the folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and the resolved configuration, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
) -> None:
    """Train a language model by play."""
    config = _config(recipe, overrides or [], run if resume else None)
    check_metrics(rule.metric for rule in config.health.rules)
    if dry_run:
        print(describe(config))
        print(to_yaml(config), end="")
        return
    path = run or Path("runs") / f"{config.name}-seed{config.seed}"
    if resume:
        folder = RunFolder.open(path)
        folder.check_same_config(config.model_dump(mode="json"))
    else:
        folder = RunFolder.create(path, to_yaml(config), overwrite=overwrite)
    with folder, GracefulStop() as stop:
        with Watcher(config, path, stream=sys.stderr) as watcher:
            summary = run_training(config, LocalEngine(config), folder, resume=resume, watch=watcher, stop=stop)
        page = write_report(path)
    _finish(summary, page, as_json)


def _config(recipe: str | None, overrides: list[str], resumed: Path | None) -> RunConfig:
    """Return the configuration that the command line asks for."""
    if recipe is None and resumed is None:
        raise ConfigError("Name a recipe, e.g. `sparring train demo`; `sparring list recipes` shows them.")
    if resumed is not None and (recipe is None or "=" in recipe):
        overrides = [recipe, *overrides] if recipe else overrides
        return resolve(apply_overrides(RunFolder.open(resumed).config(), overrides))
    assert recipe is not None
    return resolve(apply_overrides(load_recipe(recipe), overrides))


def _finish(summary: Summary, page: Path, as_json: bool) -> None:
    """Say how the run ended."""
    if as_json:
        print(json.dumps({**dataclasses.asdict(summary), "folder": str(summary.folder)}, sort_keys=True))
        return
    if summary.finished:
        print(f"Done: {summary.steps} steps in {summary.folder}; curves in {page}.")
        print(f"Next: sparring evaluate {summary.folder}   or play it: sparring play {summary.folder}")
    else:
        if summary.stopped_by:
            print(f"A health rule stopped the run: {summary.stopped_by}")
        print(f"Stopped after step {summary.steps} and saved. Go on with: sparring train --run {summary.folder} --resume")

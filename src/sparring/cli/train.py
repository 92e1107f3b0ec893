"""sparring train"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sparring.api.runs import default_folder, plan_run, train_run
from sparring.cli.text import command, say
from sparring.config import RunConfig, resolve
from sparring.config.checks import EMA, LIVE, measured_weights
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.config.yaml_text import dump_yaml
from sparring.core.errors import ConfigError, quoted
from sparring.core.trust import trust_typed
from sparring.run.folder import RunFolder
from sparring.run.loop import RunSummary
from sparring.run.provenance import this_command


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe's name or the path of a YAML file; may be left out with --resume."
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Changes to the recipe, e.g. seed=1 learner.learning_rate=0.001."),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME-seedN.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the folder's last good checkpoint.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the run in the folder once the new run has a checkpoint."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the plan and do nothing; with --json the configuration too."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the final figures, or the plan, as JSON.")
    ] = False,
) -> None:
    """Train a language model by play."""
    trust_typed([recipe, *(overrides or ())])
    config = _resolve_config(recipe, overrides or [], run if resume else None)
    if dry_run:
        plan = plan_run(config)
        if as_json:
            document = {"plan": plan, "configuration": config.model_dump(mode="json")}
            say(json.dumps(document, indent=2))
            return
        say(dump_yaml({"plan": plan}, width=1000).rstrip())
        say("# The whole configuration: add --json.")
        return
    path = run or default_folder(config)
    summary, page = train_run(
        config, path, this_command(), resume=resume, overwrite=overwrite, stream=sys.stderr
    )
    _print_summary(summary, page, measured_weights(config), as_json)


def refuse_dashes(words: Sequence[str]) -> None:
    """Refuse a configuration key that is written as an option, such as ``--steps 10``.

    Raises:
        ConfigError: a key of the configuration is written with dashes.
    """
    for index, word in enumerate(words):
        key, separator, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or key.split(".")[0] not in RunConfig.model_fields:
            continue
        value = value if separator else next(iter(words[index + 1 : index + 2]), "VALUE")
        raise ConfigError(
            f"{quoted(word, 80)} is not an option: changes to a recipe have no dashes; write "
            f"{quoted(f'{key}={value}', 80)}."
        )


def _resolve_config(recipe: str | None, overrides: list[str], old_run: Path | None) -> RunConfig:
    if recipe is None and old_run is None:
        raise ConfigError(
            "Name a recipe, e.g. `sparring train demo`; `sparring list recipes` shows them."
        )
    if old_run is not None and (recipe is None or "=" in recipe):
        overrides = [recipe, *overrides] if recipe else overrides
        return resolve(apply_overrides(RunFolder.open(old_run).config(), overrides))
    assert recipe is not None
    return resolve(apply_overrides(load_recipe(recipe), overrides))


def _print_summary(summary: RunSummary, page: Path, weights: str, as_json: bool) -> None:
    if as_json:
        data = {**dataclasses.asdict(summary), "folder": str(summary.folder), "measured": weights}
        print(json.dumps(data, sort_keys=True))
        return
    if summary.finished:
        say(f"Done: {summary.steps} steps in {summary.folder}; curves in {page}.")
        say(f"Next: {command()} evaluate {summary.folder}   to measure it")
        say(f"      {command()} view   to look at curves and replays in a browser")
        say(f"      {command()} play {summary.folder}   to play against it")
        if weights == EMA:
            say(f"Both use the {EMA} (learner.average); with --answer last, the {LIVE}.")
    elif not summary.steps:
        say(
            f"Stopped before the end of the first step; {summary.folder} has not changed. Run "
            "the same command again."
        )
    else:
        if summary.stopped_by:
            say(f"A health rule stopped the run: {summary.stopped_by}")
        say(
            f"Stopped after step {summary.steps} and saved. Continue with: {command()} train "
            f"--run {summary.folder} --resume"
        )

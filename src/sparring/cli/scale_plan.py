"""sparring scale probe and sparring scale plan"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import complain, say
from sparring.config import RunConfig, resolve
from sparring.errors import ConfigError, quoted
from sparring.experiments.scale_plan import Plan, limit_in_words
from sparring.experiments.scale_plan import plan as planned
from sparring.experiments.scale_probe import Probe
from sparring.experiments.scale_probe import probe as probed
from sparring.players.endpoint_trust import trust_typed
from sparring.recipe import apply_overrides, load_recipe

Recipe = Annotated[str, typer.Argument(help="A recipe's name or the path of a YAML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes to the recipe, e.g. scale.unit_games=64.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Steps = Annotated[int, typer.Option(min=1, max=1000, help="Steps that are measured.")]


def probe(
    recipe: Recipe,
    overrides: Overrides = None,
    steps: Steps = 3,
    out: Annotated[Path, typer.Option(help="File for the times.")] = Path("scale.json"),
    as_json: AsJson = False,
) -> None:
    """Measure what a run's plays and its learner take here, for `sparring scale plan`."""
    found = probed(_configured(recipe, overrides), steps=steps, tell=complain)
    found.save(out)
    if as_json:
        print(json.dumps(dataclasses.asdict(found), sort_keys=True))
        return
    rate = found.unit_games / found.unit
    say(f"a unit of {found.unit_games} plays     {found.unit:.3g} s, {rate:.3g} plays/s")
    say(f"units of a step        {found.units}")
    say(f"learner, a step        {found.learner:.3g} s")
    say(f"training process       {1000 * found.message:.3g} ms a unit")
    sizes = (found.task_bytes, found.answer_bytes, found.weights_bytes)
    task, answer, weights = (f"{size / 1024:.1f}" for size in sizes)
    say(f"a unit, its answer     {task} KiB, {answer} KiB")
    say(f"weights                {weights} KiB")
    say(f"\nWrote {out}.\nNext: sparring scale plan {recipe} --from {out} --workers 8")


def plan(
    recipe: Recipe,
    overrides: Overrides = None,
    workers: Annotated[int, typer.Option(min=1, max=100_000, help="How many there are.")] = 8,
    lags: Annotated[str, typer.Option(help="Values of scale.lag to compare.")] = "0,1,2,4",
    times: Annotated[
        Path | None, typer.Option("--from", help="What `sparring scale probe` wrote.")
    ] = None,
    deaths: Annotated[float, typer.Option(min=0, max=100, help="Of a worker in an hour.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say how fast a run would be on many workers, and what would limit it."""
    config, asked = _configured(recipe, overrides), _lags(lags)
    found = probed(config, tell=complain) if times is None else Probe.read(times)
    result = planned(found, workers=workers, lags=asked, deaths=deaths, seed=seed)
    if as_json:
        rows = [{**dataclasses.asdict(row), "limit": row.outcome.limit} for row in result.rows]
        print(json.dumps({**dataclasses.asdict(result), "rows": rows}, sort_keys=True))
    else:
        _say(found, result)


def _configured(recipe: str, overrides: list[str] | None) -> RunConfig:
    """Return a recipe's configuration with changes."""
    trust_typed([recipe, *(overrides or ())])
    return resolve(apply_overrides(load_recipe(recipe), overrides or []))


def _lags(text: str) -> list[int]:
    """Return the lags of a list.

    Raises:
        ConfigError: they are none.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) <= 64 for part in parts):
        raise ConfigError(f"--lags {quoted(text)}: write numbers from 0 to 64, such as 0,1,4.")
    return [int(part) for part in parts]


def _say(found: Probe, result: Plan) -> None:
    """Say what a plan holds."""
    say(
        f"{found.recipe}: {found.plays} plays a step, {found.units} units, {result.workers} workers"
    )
    head = ("lag", "s a step", "plays/s", "in play", "learning", "units/s", "MiB/s", "gain")
    say("".join(f"{word:>11}" for word in head))
    for row in result.rows:
        one = row.outcome
        cells = (
            str(row.lag),
            f"{one.step_seconds:.3g}",
            f"{row.plays:.4g}",
            f"{one.busy:.0%}",
            f"{one.learner_busy:.0%}",
            f"{row.messages:.3g}",
            f"{row.weights:.3g}",
            f"{row.gain:.2f}",
        )
        say("".join(f"{cell:>11}" for cell in cells))
    chosen = next(row for row in result.rows if row.lag == result.lag)
    say(f"\nTake scale.lag={result.lag}: {chosen.plays / result.alone:.2f} times one process.")
    say(f"What limits it is {limit_in_words(found, chosen, result.workers)}.")
    say(
        "A model of one thread per worker, each on a core of its own; docs/scale.md says its error."
    )

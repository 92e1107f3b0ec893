"""sparring scale probe and sparring scale plan"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import complain, say
from sparring.config import RunConfig, resolve
from sparring.config.scale import FRESH
from sparring.errors import ConfigError, quoted
from sparring.experiments.scale_file import Probe
from sparring.experiments.scale_plan import MIB, Plan
from sparring.experiments.scale_plan import plan as planned
from sparring.experiments.scale_probe import probe as probed
from sparring.recipe import apply_overrides, load_recipe
from sparring.system.trust import trust_typed

Recipe = Annotated[str, typer.Argument(help="A recipe's name or the path of a YAML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes to the recipe, e.g. scale.unit_games=64.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Steps = Annotated[int, typer.Option(min=1, max=1000, help="Steps that are measured.")]

TWICE = 1.1  # share of its time from which on the training process does two things at once


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
    _say_probe(found)
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
    if config.scale.order == FRESH:
        complain(
            "scale.order=fresh: what follows is of pinned order, which alone is modelled. Fresh "
            "order gains where some plays take much longer than others; see docs/scale.md."
        )
    if as_json:
        print(json.dumps({**dataclasses.asdict(result), "more_help": result.more_help}))
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


def _say_probe(found: Probe) -> None:
    """Say what was measured."""
    sizes = (found.task_bytes, found.answer_bytes, found.weights_bytes)
    task, answer, weights = (f"{size / 1024:.1f} KiB" for size in sizes)
    spread = f"sigma of its logarithm {found.log_sigma:.2f}"
    lines = {
        "a step": f"{found.plays} plays in {found.units} units",
        "in one process": f"{found.alone:.3g} s, {found.plays / found.alone:.4g} plays/s",
        f"a unit of {found.unit_games} plays": f"{found.unit:.3g} s, {spread}",
        "a play": f"{1000 * found.play:.3g} ms",
        "one more unit at once": f"{found.unit - found.together:.3g} s",
        "learner, a step": f"{found.learner:.3g} s, and {found.seating:.3g} s to seat the plays",
        "weights": f"{weights}, {1000 * found.write:.3g} ms to write, "
        f"{1000 * found.load:.3g} ms to read",
        "training process": f"{1000 * found.message:.3g} ms a unit: {task} to send, {answer} back",
        "memory of a worker": f"{found.memory_bytes / MIB:.0f} MiB",
    }
    for name, text in lines.items():
        say(f"{name:24}{text}")


def _say(found: Probe, result: Plan) -> None:
    """Say what a plan holds."""
    say(
        f"{found.recipe}: {found.plays} plays a step, {found.units} units, {result.workers} "
        f"workers with {result.memory:,.0f} MiB in all"
    )
    say("lag   s a step    plays/s  in play  learning   units/s   MiB/s   gain  over one process")
    for row in result.rows:
        one = row.outcome
        say(
            f"{row.lag:>3}{one.step_seconds:>11.3g}{_rate(row.plays):>11}{one.busy:>9.0%}"
            f"{one.learner_busy:>10.0%}{_rate(row.messages):>10}{_rate(row.weights):>8}"
            f"{row.gain:>7.2f}{row.over_one:>18.2f}"
        )
    say("\nWhat limits it:")
    for row in result.rows:
        say(f"  lag {row.lag}: {row.limit}.")
    _say_advice(result)


def _rate(value: float) -> str:
    """Return a rate in few digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _say_advice(result: Plan) -> None:
    """Say which lag to take, and whether more workers would help."""
    own, times = result.chosen.outcome, result.chosen.over_one
    say(f"\nTake scale.lag={result.lag}: {times:.2f} times one process without workers.")
    if times < 1:
        say("Workers do not pay here: play in the training process (scale.fleet=here).")
    both = own.messages_busy + own.learner_busy
    if both > TWICE:
        say(
            f"Messages and learning together take the training process {both:.0%} of its time. The "
            "model does both at once; as far as they wait for each other's Python, it is slower."
        )
    twice = f"{2 * result.workers} workers would be {result.twice:.2f} times as fast"
    say(f"More workers would {'' if result.more_help else 'not '}help: {twice}.")
    say("A model: one thread per worker, each on a core of its own; docs/scale.md says its error.")

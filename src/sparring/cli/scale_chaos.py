"""sparring scale chaos"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparring.cli.text import complain, say
from sparring.config import resolve
from sparring.engine.fleet.chaos import Harm
from sparring.experiments.scale_chaos import Compared, compare
from sparring.recipe import apply_overrides, load_recipe
from sparring.system.trust import trust_typed

STOPPED = 2  # workers that --hangs stops
WORDS = {
    "killed": "workers killed",
    "stopped": "workers stopped, never to answer",
    "held_back": "answers held back",
    "given_twice": "answers given twice",
    "spoilt": "answers replaced by rubbish",
}


def chaos(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or the path of a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to the recipe, e.g. steps=4.")
    ] = None,
    kills: Annotated[int, typer.Option(min=0, help="Workers that are killed, in all.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the harm.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Workers that are harmed.")] = 2,
    fleet: Annotated[
        Literal["processes", "ray", "simulated"], typer.Option(help="Where they run.")
    ] = "processes",
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="Give one answer in five twice.")
    ] = False,
    delays: Annotated[
        bool, typer.Option("--delays", help="Hold answers back, 0.2 seconds a unit on average.")
    ] = False,
    rubbish: Annotated[bool, typer.Option("--rubbish", help="Spoil one answer in ten.")] = False,
    hangs: Annotated[
        bool, typer.Option("--hangs", help="Stop two processes; scale.timeout finds them.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Folder in which both runs are kept; default: none.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Kill, stop and delay workers, and compare the bytes with a run without any."""
    trust_typed([recipe, *(overrides or ())])
    config = resolve(apply_overrides(load_recipe(recipe), overrides or []))
    harm = Harm(
        kills=kills,
        chance=0.5,
        mean=0.2 if delays else 0.0,
        sigma=1.0,
        twice=0.2 if duplicates else 0.0,
        rubbish=0.1 if rubbish else 0.0,
        hangs=STOPPED if hangs else 0,
    )
    logging.getLogger("sparring.engine.distributed").setLevel(logging.ERROR)  # deaths are the point
    with _folder(keep) as folder:
        found = compare(
            config, folder, harm, fleet=fleet, workers=workers, seed=seed, tell=complain
        )
    if as_json:
        print(json.dumps({**dataclasses.asdict(found), "same": found.same}, sort_keys=True))
    else:
        _say(found, kills)
    if not found.same:
        raise typer.Exit(1)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Give a folder for both runs: the one that is named, or one that is removed."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="sparring-chaos-") as name:
        yield Path(name)


def _say(found: Compared, kills: int) -> None:
    """Say what was done, what was counted, and whether the bytes are the same."""
    quiet, harmed = found.quiet, found.harmed
    say(f"{'':36}{'without workers':<20}with chaos")
    say(f"{'SHA-256 of the last weights':36}{quiet.weights[:16]:<20}{harmed.weights[:16]}")
    say(f"{'SHA-256 of metrics.jsonl':36}{quiet.metrics[:16]:<20}{harmed.metrics[:16]}")
    say(f"{'seconds':36}{quiet.seconds:<20.1f}{harmed.seconds:.1f}")
    say("\nDone:")
    for name, number in found.done.items():
        say(f"  {WORDS[name]:34}{number}")
    say("Counted in timing.jsonl:")
    for name, number in found.counted.items():
        say(f"  {name:34}{number}")
    if found.done["killed"] < kills:
        say(f"\nThe run was over before {kills} workers were killed; more steps allow more.")
    say(f"\n{'The bytes are the same.' if found.same else 'THE BYTES DIFFER.'}")

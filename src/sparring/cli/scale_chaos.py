"""sparring scale chaos"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sparring.cli.text import complain, say
from sparring.config import resolve
from sparring.config.scale import FRESH
from sparring.engine.admission import Account
from sparring.engine.fleet.chaos import Harm
from sparring.experiments.scale_chaos import Accounted, Compared, accounted, compare
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
    """Kill, stop and delay workers, and compare the bytes with a run without any; in fresh order,
    account for every play.
    """
    trust_typed([recipe, *(overrides or ())])
    played = [f"scale.fleet={fleet}", f"scale.workers={workers}"]  # fresh order needs to be told
    config = resolve(apply_overrides(load_recipe(recipe), [*(overrides or []), *played]))
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
    tried: Any = accounted if config.scale.order == FRESH else compare
    with _folder(keep) as folder:
        found: Accounted | Compared = tried(
            config, folder, harm, fleet=fleet, workers=workers, seed=seed, tell=complain
        )
    verdict = "balances" if isinstance(found, Accounted) else "same"
    good = bool(getattr(found, verdict))
    if as_json:
        print(json.dumps({**dataclasses.asdict(found), verdict: good}, sort_keys=True))
    elif isinstance(found, Accounted):
        _say_account(found, kills)
    else:
        _say(found, kills)
    if not good:
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
    _say_harm(found, kills)
    say(f"\n{'The bytes are the same.' if found.same else 'THE BYTES DIFFER.'}")


def _say_account(found: Accounted, kills: int) -> None:
    """Say what became of the plays, what was done, and whether every play is accounted for."""
    names = [field.name for field in dataclasses.fields(Account)]
    say("plays       " + "".join(f"{name:>10}" for name in names))
    for step, account in enumerate(found.accounts, start=1):
        values = (getattr(account, name) for name in names)
        say(f"step {step:<7}" + "".join(f"{value:>10}" for value in values))
    say(f"{'seconds':12}{found.seconds:>10.1f}")
    _say_harm(found, kills)
    end = "Every play is accounted for." if found.balances else "PLAYS ARE MISSING."
    say(f"\n{end}")


def _say_harm(found: Compared | Accounted, kills: int) -> None:
    """Say what was done and what was counted."""
    say("\nDone:")
    for name, number in found.done.items():
        say(f"  {WORDS[name]:34}{number}")
    say("Counted in timing.jsonl:")
    for name, number in found.counted.items():
        say(f"  {name:34}{number}")
    if found.done["killed"] < kills:
        say(f"\nThe run was over before {kills} workers were killed; more steps allow more.")

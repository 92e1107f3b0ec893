"""sparring show --league"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.cli.text import say, say_rows
from sparring.report.episode_record import finite
from sparring.report.ratings import league_rows, standings_of
from sparring.run.folder import RunFolder
from sparring.run.state import RunState
from sparring.system.files import parse_json
from sparring.view import meta_strategy as meta
from sparring.view.newest import ENGINE

SIDES = ("in the first side", "in the second side")


def show_league(run: Path, step: int | None, as_json: bool) -> None:
    """Show the payoff book of a checkpoint, and the weights of the run's meta-solver if it has one.

    Args:
        run: the run folder.
        step: of the checkpoint; None takes the newest.
        as_json: whether to print one JSON document.

    Raises:
        SparringError: there is no such run or checkpoint.
    """
    folder = RunFolder.open(run)
    found = folder.checkpoint(step)
    standings = standings_of(RunState(owners=found.state).payoffs)
    weighed = _weighed(folder.config(), found.path, found.state)
    if as_json:
        rows = [standing._asdict() for standing in standings]
        shown = {"step": found.step, "standings": rows, **({"weights": weighed} if weighed else {})}
        print(json.dumps(finite(shown), allow_nan=False))
        return
    if not standings:
        say(f"No plays count yet at step {found.step}.")
    else:
        say(f"Results of training's plays up to step {found.step}:\n")
        say_rows(league_rows(standings))
    if weighed:
        say(f"\nWeights by {weighed['solver']} ({weighed['source']}):\n")
        say_rows(_rows(weighed["members"]))
        if weighed["why"]:
            say(f"\nThere are none: {weighed['why']}.")


def _weighed(
    config: Mapping[str, Any], checkpoint: Path, state: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the weights of a checkpoint's members by the run's meta-solver; None: it has none."""
    solver = meta.solver_of(config)
    if solver is None:
        return None
    league = meta.league_of(parse_json((checkpoint / ENGINE).read_bytes()), state)
    labels = meta.labels_of(meta.environments_of(config), solver)
    found = meta.solved(league, solver.written, labels, meta.apart_in(config))
    named = {"solver": meta.text_of(solver.written), "source": solver.source}
    return {**named, "why": found["why"], "members": found["members"]}


def _rows(members: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the weights as rows of text, under a head: one for all sides, or one for each."""
    apart = any("sides" in one for one in members)
    head = ("member", *(SIDES if apart else ("weight",)))
    weights = [one["sides"] if apart else [one["weight"]] for one in members]
    texts = [["-" if one is None else f"{one:.3f}" for one in own] for own in weights]
    return [head, *((str(one["name"]), *own) for one, own in zip(members, texts, strict=True))]

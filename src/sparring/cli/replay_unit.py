"""sparring replay-unit"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sparring.api.unit_replay import ReplayedEpisode, replay, unit_of
from sparring.cli.text import say
from sparring.play.spec import EpisodeSpec


def replay_unit(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    step: Annotated[int, typer.Argument(help="The step's number, as in metrics.jsonl, from 1.")],
    unit: Annotated[int, typer.Argument(min=0, help="The unit's number in the step, from 0.")],
) -> None:
    """Play a unit of a run's step again in this process, where errors show."""
    engine, specs, judging = unit_of(run, step, unit)
    say(f"Unit {unit} of step {step}: {len(specs)} plays of {specs[0].game.name}.", file=sys.stdout)
    given_up = _print_episodes(replay(engine, specs, judging))
    if given_up:
        say(f"{given_up} of {len(specs)} plays were given up (rollout.retries).")
        raise typer.Exit(1)
    say("All of them were played.")


def _print_episodes(plays: Iterator[tuple[EpisodeSpec, ReplayedEpisode | None]]) -> int:
    """Print the course of each episode and return the number of abandoned ones."""
    given_up = 0
    for spec, result in plays:
        if result is None:
            seats = ", ".join(map(str, spec.players))
            suffix = "" if not spec.prefix else f", after {len(spec.prefix)} turns of another"
            # flushed, as the process may crash in this episode
            say(f"play {spec.episode_id} (group {spec.group_id}): {seats}{suffix}", file=sys.stdout)
            continue
        for trace in result.raised:
            for line in trace.splitlines():
                say(f"    {line}")
        again = f", begun anew {result.retried} times" if result.retried else ""
        if result.returns is None:
            say(f"  given up{again}")
            given_up += 1
        else:
            returns = " ".join(f"{value:g}" for value in result.returns)
            say(f"  {result.turns} turns, returns {returns}{again}")
    return given_up

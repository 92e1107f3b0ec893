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
    step: Annotated[int, typer.Argument(help="Number of the step, as in metrics.jsonl, from 1.")],
    unit: Annotated[int, typer.Argument(min=0, help="Number of the unit in the step, from 0.")],
) -> None:
    """Play a unit of a run's step again in this process, to see its errors."""
    engine, specs, judging = unit_of(run, step, unit)
    game = specs[0].game.name
    say(f"Unit {unit} of step {step}: {len(specs)} episodes of {game}.", file=sys.stdout)
    num_abandoned = _print_episodes(replay(engine, specs, judging))
    if num_abandoned:
        say(f"{num_abandoned} of {len(specs)} episodes were given up (rollout.retries).")
        raise typer.Exit(1)
    say("All episodes were played.")


def _print_episodes(results: Iterator[tuple[EpisodeSpec, ReplayedEpisode | None]]) -> int:
    num_abandoned = 0
    for spec, result in results:
        if result is None:
            seats = ", ".join(map(str, spec.players))
            prefix_text = "" if not spec.prefix else f", after {len(spec.prefix)} turns of another"
            # say flushes this line, because the process may crash in the episode
            label = f"episode {spec.episode_id} (group {spec.group_id})"
            say(f"{label}: {seats}{prefix_text}", file=sys.stdout)
            continue
        for trace in result.tracebacks:
            for line in trace.splitlines():
                say(f"    {line}")
        restarts = f", restarted {result.num_restarts} times" if result.num_restarts else ""
        if result.returns is None:
            say(f"  given up{restarts}")
            num_abandoned += 1
        else:
            returns = " ".join(f"{value:g}" for value in result.returns)
            say(f"  {result.turns} turns, returns {returns}{restarts}")
    return num_abandoned

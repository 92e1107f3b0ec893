"""sparring doctor"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib import metadata
from typing import Annotated, Any

import typer

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.engine.workers.worker import facts
from sparring.environments.openspiel import OPENSPIEL
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

PACKAGES = ("torch", "transformers", OPENSPIEL, "numpy", "pyarrow", "tensorboard")


def examine() -> dict[str, Any]:
    """Return versions, threads, games per second, and ``healthy``: whether sampling is exact."""
    results: dict[str, Any] = {
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **facts(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
    config = resolve(
        {"environments": [{"name": "kuhn_poker"}], "steps": 3, "rollout": {"games_per_step": 256}}
    )
    engine, methods = LocalEngine(config), Methods.of(config)
    state = RunState()
    start_time, num_games, difference = time.perf_counter(), 0, 0.0
    while state.step < config.steps:
        step_result = play_round(config, engine, methods, state)
        state, num_games = step_result.state, num_games + len(step_result.episodes)
        difference = max(difference, step_result.metrics["logprob_difference_max"])
    results["games_per_second"] = round(num_games / (time.perf_counter() - start_time))
    results["logprob_difference"] = difference
    results["healthy"] = difference < 1e-4
    return results


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Check this machine: versions, threads, and a two-second round of training."""
    results = examine()
    if as_json:
        print(json.dumps(results, sort_keys=True))
    else:
        for name, value in results.items():
            print(f"{name:>20}  {value}")
    if not results["healthy"]:
        raise typer.Exit(1)

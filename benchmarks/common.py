"""Helpers of the benchmarks: timing, scripts of other packages (peers), self-play of one agent."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sparring
from sparring.core.rng import Stream
from sparring.play.spec import EpisodeSpec

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers" / "bin" / "python"


def median_seconds(work: Callable[[], Any], *, repeats: int = 9, warm_up: int = 2) -> float:
    """Return the median seconds of a call, after warm-up calls."""
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def ask_peer(script: str, *arguments: Any) -> Any:
    """Run a script of this folder in the peers' environment and return the JSON on its last line.

    Raises:
        SystemExit: the environment is missing, or the script failed; its errors are above.
    """
    if not PEERS.exists():
        sys.exit("The peers' environment is missing; run `make benchmark`, which makes it.")
    command = [str(PEERS), str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)  # its errors are shown
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        sys.exit(f"{done.stdout}{script} ended with {done.returncode} in the peers' environment.")
    return json.loads(lines[-1])


def quick_run(recipe: str, folder: Path) -> Path:
    """Return the folder of a run of two small steps, for scripts that read finished runs."""
    small = ["steps=2", "threads=1", "warmup.updates=2", "rollout.games_per_step=8"]
    small += ["evaluation.opponents=[]"]
    return sparring.train(recipe, *small, run=folder, overwrite=True).path


def self_play_specs(game: Any, count: int, agent: str) -> list[Any]:
    """Return the specs of games in which one agent plays every seat, from seed 0."""
    root = Stream.from_seed(0)
    plays, seats = root.child("play"), game.num_seats
    return [
        EpisodeSpec(
            game=game,
            episode_id=index,
            group_id=index,
            deal=root.child(index),
            stream=plays.child(index),
            seats=(agent,) * seats,
            trained=(True,) * seats,
        )
        for index in range(count)
    ]

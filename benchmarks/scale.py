"""Workers: the bytes of a run stay the same, and its seconds.

    python benchmarks/scale.py digests     the same bytes whoever plays and whoever is killed
    python benchmarks/scale.py latency     seconds of a run whose answers are held back, by lag
    python benchmarks/scale.py workers     seconds a step with two workers and with none
    python benchmarks/scale.py thousand    the event model with 1,000 workers

`--jobs N` runs so many rows of `digests` at a time. `latency` and `workers` want a quiet machine;
`latency` waits most of the time, as its answers are held back.
"""

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from published import record, settings
from scale_model import held_back_seconds, thousand_workers
from tests.engine.fleet.faulty_fleet import SECONDS_COUNTER, FaultPlan, FaultyFleet
from tests.engine.fleet.faulty_runs import train_run, with_fleet
from tests.engine.fleet.network_model import lognormal

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.files import file_digest
from sparring.core.rng import Stream
from sparring.run import checkpoint
from sparring.run.events import METRICS, TIMING, read_lines

SMALL = ["threads=1", "warmup.updates=2", "evaluation.opponents=[]", "checkpoint.every=1"]
RECIPES = {
    "kuhn-tiny": ["steps=8", "rollout.games_per_step=128", "scale.unit_games=16"],
    "tictactoe-tiny": [
        "steps=6",
        "rollout.games_per_step=64",
        "scale.unit_games=8",
        "league.every=1",
    ],
    "vpr/sudoku-tiny": ["steps=6", "rollout.games_per_step=32", "scale.unit_games=8"],
    "signalling-tiny": ["steps=8", "rollout.games_per_step=128", "scale.unit_games=16"],
}
LAGS = (0, 1, 4)
QUIET = [("here", 0), ("processes", 1), ("processes", 2), ("processes", 3), ("ray", 2)]
HARM = FaultPlan(kills=20, chance=0.9, mean=0.1, sigma=1.0, twice=0.3, most=2)
KILLS = 20  # of the training process
HARMED = {"kuhn-tiny": LAGS}  # lags at which a recipe's processes are killed; of others lag 1
LAW = {"mean": 0.8, "sigma": 1.0}  # seconds that the answer to a unit is held back
STEPS, UNITS = 28, 8  # of 14 steps the first ones, which fill the workers, were a tenth of the gain
GRID = [(workers, lag) for workers in (1, 2, 4, 8) for lag in (0, 1, 2, 4)]
SEARCH = (100, 1000, 10_000)  # simulations of MCTS, which sits in half of the games
TIMED = [*(("tictactoe-tiny", count) for count in SEARCH), ("kuhn-tiny", 0)]


def configured(recipe, changes):
    """Return a recipe's configuration with changes."""
    return resolve(apply_overrides(load_recipe(recipe), changes))


# -- digests ---------------------------------------------------------------------------------------


def arms():
    """Return all arms: (recipe, lag, fleet, faults)."""
    return [
        (recipe, lag, *arm)
        for recipe in RECIPES
        for lag in LAGS
        for arm in [
            *((f"{workers} by {fleet}", "-") for fleet, workers in QUIET),
            ("2 by processes", "workers killed, answers late and twice"),
            ("2 by processes", "training process killed"),
        ]
        if arm[1] == "-" or lag in HARMED.get(recipe, (1,))
    ]


def digest_of(path):
    """Return one digest of a run's last weights and its metrics."""
    files = sorted(checkpoint.load_latest(path).path.glob("*.safetensors"))
    parts = [[file.name, file_digest(file)] for file in files] + [file_digest(path / METRICS)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def digest_row(arm):
    """Run an arm in a process of its own; return its row."""
    recipe, lag, who, harm = arm
    count, _, fleet = who.split()
    changes = [*SMALL, *RECIPES[recipe], f"scale.lag={lag}"]
    row = {"recipe": recipe, "lag": str(lag), "who plays": who, "harm": harm}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        if harm.startswith("training"):
            row["done"] = f"{killed_again_and_again(recipe, changes, path)} kills, each resumed"
        else:
            fleets = []
            config = with_fleet(configured(recipe, changes), fleet, int(count))

            def through(fleet):
                fleets.append(FaultyFleet(fleet, 0, HARM if harm != "-" else FaultPlan()))
                return fleets[0]

            train_run(config, path, through if harm != "-" else None)
            done = fleets[0].counts() if fleets else {}
            row["done"] = (
                ", ".join(f"{name} {number}" for name, number in done.items() if number) or "-"
            )
        return {**row, "digest": digest_of(path)}


def killed_again_and_again(recipe, changes, path):
    """Train, `kill -9` the training process at random instants, and go on; return the kills."""
    draw = random.Random(f"{recipe} {changes}")
    scale = ["scale.fleet=processes", "scale.workers=2"]
    new = ["sparring", "train", recipe, *changes, *scale, "--run", str(path)]
    resume = ["sparring", "train", "--run", str(path), "--resume"]
    for number in range(KILLS):
        has_begun = (path / "config.yaml").exists()
        process = subprocess.Popen(
            resume if has_begun else new, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(draw.uniform(2.0, 9.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait() == 0:  # it was done before: what is left is to go on with nothing to do
            return number
    has_begun = (path / "config.yaml").exists()
    subprocess.run(resume if has_begun else new, check=True, stdout=subprocess.DEVNULL)
    return KILLS


def digests(options):
    """Run all arms; return their rows in order."""
    chosen = [arm for arm in arms() if options.only in arm[0]][: 2 if options.quick else None]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        options.jobs, mp_context=spawn, max_tasks_per_child=1
    ) as pool:
        futures = [pool.submit(digest_row, arm) for arm in chosen]
        rows = []
        for arm, future in zip(chosen, futures, strict=True):
            rows.append(future.result())
            print(*arm, rows[-1]["digest"], file=sys.stderr, flush=True)
    return rows


# -- latency ---------------------------------------------------------------------------------------


def held_back(workers, lag, steps, path):
    """Return the seconds of a run whose answers are held back, from its first step on, the mean
    seconds of its learner, and the median seconds of a unit."""
    changes = [
        *("threads=1", "warmup.updates=0", f"steps={steps}", "evaluation.exact=false"),
        *(
            f"rollout.games_per_step={8 * UNITS}",
            "scale.unit_games=8",
            "checkpoint.every=1000",
            "store.every=0",
        ),
        f"scale.lag={lag}",
    ]
    config = with_fleet(configured("kuhn-tiny", changes), "processes", workers)
    clock = []

    def through(fleet):
        return FaultyFleet(Ready(fleet, workers, clock), 0, FaultPlan(**LAW))

    train_run(config, path, through)
    timing = read_lines(path / TIMING)
    learner = statistics.mean(line["seconds/round"] - line["seconds/play"] for line in timing)
    return clock[-1] - clock[0], learner


class Ready:
    """A fleet that says that its workers are ready when all of them are: so starting costs nothing.

    `clock` is told when they were ready, and when each answer came.
    """

    def __init__(self, fleet, workers, clock):
        self._fleet, self._left, self._clock, self._kept = fleet, workers, clock, []

    def __getattr__(self, name):
        return getattr(self._fleet, name)

    def poll(self, seconds):
        messages = self._fleet.poll(seconds)
        if not self._left:
            if messages:
                self._clock.append(time.perf_counter())
            return messages
        self._left -= len(messages)
        self._kept += messages
        if self._left:
            return []
        self._clock.append(time.perf_counter())
        return self._kept


def unit_seconds(unit):
    """Return how long the answer to a unit is held back: what `FaultyFleet` draws with seed 0."""
    stream = Stream.from_seed(0).child("chaos").child("unit").child(unit)
    return lognormal(stream, SECONDS_COUNTER, LAW["mean"], LAW["sigma"])


def cell(workers, lag, steps):
    """Return the seconds of a cell and of its learner, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return held_back(workers, lag, steps, Path(folder) / "run")


def latency(options):
    """Return the seconds of each cell, three times at 8 workers, and what the model says.

    Cells of one or two workers wait nearly all of their time: those of one number run side by side.
    """
    rows, grid, steps = [], *(([(2, 1)], 2) if options.quick else (GRID, STEPS))
    spawn = multiprocessing.get_context("spawn")
    for count in dict.fromkeys(count for count, _ in grid):
        lags = [lag for group, lag in grid if group == count]
        side = len(lags) if count <= 2 else 1
        times = 3 if count == 8 else 1
        with concurrent.futures.ProcessPoolExecutor(
            side, mp_context=spawn, max_tasks_per_child=1
        ) as pool:
            futures = [[pool.submit(cell, count, lag, steps) for _ in range(times)] for lag in lags]
            results = [[future.result() for future in group] for group in futures]
        for lag, group in zip(lags, results, strict=True):
            seconds, learners = zip(*group, strict=True)
            modelled = held_back_seconds(
                workers=count,
                lag=lag,
                steps=steps,
                units=UNITS,
                unit=unit_seconds,
                learner=statistics.median(learners),
            )
            took = statistics.median(seconds)
            rows.append(
                {
                    "workers": str(count),
                    "lag": str(lag),
                    "seconds": took,
                    "modelled seconds": modelled,
                    "ratio": took / modelled,
                    "all": " ".join(f"{future:.1f}" for future in seconds),
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


# -- workers ---------------------------------------------------------------------------------------


def seconds_a_step(recipe, searched, workers, steps, folder):
    """Return the median seconds of so many steps but the first, which is left out."""
    fleet = ["scale.fleet=processes"] if workers else []
    bots = f"bots={{search: {{name: mcts, simulations: {searched}}}}}"
    changes = [
        "threads=1",
        f"steps={steps}",
        "evaluation.every=100",
        "evaluation.exact=false",
        "checkpoint.every=1000",
        "store.every=0",
        *fleet,
        f"scale.workers={workers}",
        *(["matchmaker.bots={search: 0.5}", bots] if searched else []),
    ]
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        ["sparring", "train", recipe, *changes, "--run", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return statistics.median(line["seconds/round"] for line in read_lines(folder / TIMING)[1:])


def workers(options):
    """Return the seconds a step of each recipe with two workers and with none, by turns."""
    rows, times, steps = [], *((1, 2) if options.quick else (3, 21))
    for recipe, searched in TIMED[-1:] if options.quick else TIMED:
        by_count = {0: [], 2: []}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(times):
                for count, seconds in by_count.items():
                    run = Path(folder) / "run"
                    seconds.append(seconds_a_step(recipe, searched, count, steps, run))
                    print(recipe, searched, count, seconds[-1], file=sys.stderr, flush=True)
        ratio = statistics.median(a / b for a, b in zip(by_count[0], by_count[2], strict=True))
        half = f"MCTS, {searched:,} simulations, in half of the games"
        each = {
            f"{count} workers": " ".join(f"{second:.3g}" for second in seconds)
            for count, seconds in by_count.items()
        }
        rows.append(
            {
                "recipe": recipe,
                "opponents": half if searched else "the recipe's",
                **each,
                "ratio": ratio,
            }
        )
    return rows


def thousand(options):
    """Return the event model's figures for 1,000 workers."""
    small = {"workers": 20, "lags": (0, 1), "steps": 2, "seeds": 1} if options.quick else {}
    return thousand_workers(**small)


MADE = {"digests": digests, "latency": latency, "workers": workers, "thousand": thousand}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=MADE)
    parser.add_argument("--jobs", type=int, default=1, help="rows of digests at a time")
    parser.add_argument("--only", default="", help="recipes whose name holds this")
    options = settings(parser, "what", "jobs")
    record(f"scale-{options.what}", MADE[options.what](options), options)

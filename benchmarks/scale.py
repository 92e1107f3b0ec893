"""Runs on worker processes: a check that a run keeps its bytes, and measured seconds.

    python benchmarks/scale.py digests     equal bytes for any workers, also if processes are killed
    python benchmarks/scale.py latency     seconds of a run whose results are delayed, by lag
    python benchmarks/scale.py workers     seconds per step with two workers and with none
    python benchmarks/scale.py thousand    the event simulation with 1,000 workers

`--jobs N` runs N rows of `digests` at a time. `latency` and `workers` need an idle machine;
`latency` mostly waits, as its results are delayed.
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

COMMON_OVERRIDES = [
    "threads=1",
    "warmup.updates=2",
    "evaluation.opponents=[]",
    "checkpoint.every=1",
]
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
FLEETS = [("here", 0), ("processes", 1), ("processes", 2), ("processes", 3), ("ray", 2)]
FAULT_PLAN = FaultPlan(kills=20, chance=0.9, mean=0.1, sigma=1.0, twice=0.3, most=2)
NUM_KILLS = 20  # kills of the training process
# lags at which a recipe's processes are killed; lag 1 for other recipes
LAGS_WITH_FAULTS = {"kuhn-tiny": LAGS}
DELAY_OF_RESULT = {"mean": 0.8, "sigma": 1.0}  # seconds (lognormal)
# with 14 steps, the first steps (which fill the workers) changed the gain by a tenth
STEPS, UNITS = 28, 8
GRID = [(workers, lag) for workers in (1, 2, 4, 8) for lag in (0, 1, 2, 4)]
SEARCH = (100, 1000, 10_000)  # simulations of MCTS, the opponent in half of the games
TIMED_CASES = [*(("tictactoe-tiny", count) for count in SEARCH), ("kuhn-tiny", 0)]


def config_with_overrides(recipe, changes):
    """Return the configuration of a recipe with overrides."""
    return resolve(apply_overrides(load_recipe(recipe), changes))


# -- digests ---------------------------------------------------------------------------------------


def arms():
    """Return all arms: (recipe, lag, fleet, faults)."""
    return [
        (recipe, lag, *arm)
        for recipe in RECIPES
        for lag in LAGS
        for arm in [
            *((f"{workers} by {fleet}", "-") for fleet, workers in FLEETS),
            ("2 by processes", "workers killed, answers late and twice"),
            ("2 by processes", "training process killed"),
        ]
        if arm[1] == "-" or lag in LAGS_WITH_FAULTS.get(recipe, (1,))
    ]


def digest_of(path):
    """Return one digest of a run's last weights and its metrics."""
    files = sorted(checkpoint.load_latest(path).path.glob("*.safetensors"))
    parts = [[file.name, file_digest(file)] for file in files] + [file_digest(path / METRICS)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def digest_row(arm):
    """Run an arm and return its row; the caller starts a process for each arm."""
    recipe, lag, who, harm = arm
    count, _, fleet = who.split()
    overrides = [*COMMON_OVERRIDES, *RECIPES[recipe], f"scale.lag={lag}"]
    row = {"recipe": recipe, "lag": str(lag), "who plays": who, "harm": harm}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        if harm.startswith("training"):
            row["done"] = f"{train_with_kills(recipe, overrides, path)} kills, each resumed"
        else:
            fleets = []
            config = with_fleet(config_with_overrides(recipe, overrides), fleet, int(count))

            def through(fleet):
                fleets.append(FaultyFleet(fleet, 0, FAULT_PLAN if harm != "-" else FaultPlan()))
                return fleets[0]

            train_run(config, path, through if harm != "-" else None)
            done = fleets[0].counts() if fleets else {}
            row["done"] = (
                ", ".join(f"{name} {number}" for name, number in done.items() if number) or "-"
            )
        return {**row, "digest": digest_of(path)}


def train_with_kills(recipe, changes, path):
    """Train; kill and resume the process at random times; return the number of kills."""
    draw = random.Random(f"{recipe} {changes}")
    scale = ["scale.fleet=processes", "scale.workers=2"]
    new = ["sparring", "train", recipe, *changes, *scale, "--run", str(path)]
    resume = ["sparring", "train", "--run", str(path), "--resume"]
    for index in range(NUM_KILLS):
        has_begun = (path / "config.yaml").exists()
        process = subprocess.Popen(
            resume if has_begun else new, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(draw.uniform(2.0, 9.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait() == 0:  # training ended before the kill; the resume has nothing to do
            return index
    has_begun = (path / "config.yaml").exists()
    subprocess.run(resume if has_begun else new, check=True, stdout=subprocess.DEVNULL)
    return NUM_KILLS


def digests(options):
    """Run the chosen arms; return their rows in order."""
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


def seconds_with_delays(workers, lag, steps, path):
    """Return the seconds of a run with delayed results since its first step, the mean seconds of
    its learner, and the median seconds of a unit.
    """
    overrides = [
        *("threads=1", "warmup.updates=0", f"steps={steps}", "evaluation.exact=false"),
        *(
            f"rollout.games_per_step={8 * UNITS}",
            "scale.unit_games=8",
            "checkpoint.every=1000",
            "store.every=0",
        ),
        f"scale.lag={lag}",
    ]
    config = with_fleet(config_with_overrides("kuhn-tiny", overrides), "processes", workers)
    clock = []

    def through(fleet):
        return FaultyFleet(AllReadyFleet(fleet, workers, clock), 0, FaultPlan(**DELAY_OF_RESULT))

    train_run(config, path, through)
    timing = read_lines(path / TIMING)
    learner = statistics.mean(line["seconds/round"] - line["seconds/play"] for line in timing)
    return clock[-1] - clock[0], learner


class AllReadyFleet:
    """A fleet that reports its workers as ready only when all are, so that the start is not timed.

    `clock` records when they were ready, and when each result arrived.
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


def delay_of_unit(unit):
    """Return the delay of a unit's result in seconds, which `FaultyFleet` draws with seed 0."""
    stream = Stream.from_seed(0).child("chaos").child("unit").child(unit)
    return lognormal(stream, SECONDS_COUNTER, DELAY_OF_RESULT["mean"], DELAY_OF_RESULT["sigma"])


def run_cell(workers, lag, steps):
    """Run a cell in a temporary folder; return its seconds and those of its learner."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds_with_delays(workers, lag, steps, Path(folder) / "run")


def latency(options):
    """Return the seconds of each cell (three runs with 8 workers) and those of the event
    simulation.

    Cells with one or two workers mostly wait, so cells with the same number of workers run in
    parallel.
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
            futures = [
                [pool.submit(run_cell, count, lag, steps) for _ in range(times)] for lag in lags
            ]
            results = [[future.result() for future in group] for group in futures]
        for lag, group in zip(lags, results, strict=True):
            seconds, learners = zip(*group, strict=True)
            modelled = held_back_seconds(
                workers=count,
                lag=lag,
                steps=steps,
                units=UNITS,
                unit=delay_of_unit,
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


def seconds_per_step(recipe, searched, workers, steps, folder):
    """Return the median seconds of the steps of a run, without the first step."""
    fleet = ["scale.fleet=processes"] if workers else []
    bots = f"bots={{search: {{name: mcts, simulations: {searched}}}}}"
    overrides = [
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
        ["sparring", "train", recipe, *overrides, "--run", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return statistics.median(line["seconds/round"] for line in read_lines(folder / TIMING)[1:])


def workers(options):
    """Return the seconds per step of each recipe with two workers and with none, in turns."""
    rows, times, steps = [], *((1, 2) if options.quick else (3, 21))
    for recipe, searched in TIMED_CASES[-1:] if options.quick else TIMED_CASES:
        by_count = {0: [], 2: []}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(times):
                for count, seconds in by_count.items():
                    run = Path(folder) / "run"
                    seconds.append(seconds_per_step(recipe, searched, count, steps, run))
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
    """Return the rows of the event simulation with 1,000 workers."""
    small = {"workers": 20, "lags": (0, 1), "steps": 2, "seeds": 1} if options.quick else {}
    return thousand_workers(**small)


EXPERIMENTS = {"digests": digests, "latency": latency, "workers": workers, "thousand": thousand}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=EXPERIMENTS)
    parser.add_argument("--jobs", type=int, default=1, help="rows of digests at a time")
    parser.add_argument("--only", default="", help="recipes whose name holds this")
    options = settings(parser, "what", "jobs")
    record(f"scale-{options.what}", EXPERIMENTS[options.what](options), options)

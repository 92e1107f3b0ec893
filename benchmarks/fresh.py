"""The gain of fresh order over pinned order if some episodes take ten times as long as others.

    python benchmarks/fresh.py

Units of one play are held back by a lognormal law with sigma 1.2, as if plays took that long
elsewhere; a unit is held back as long in every cell. It waits most of the time: quarter of an hour
on a quiet machine. `--steps` and `--workers` make it smaller. "load" is the machine's load average
of the last five minutes, at the end of a run: other work takes time from learner and messages.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from published import record, row_faults, settings
from scale import Ready, configured
from scale_model import Setting, simulate, simulate_fresh
from tests.engine.fleet.faulty_fleet import SECONDS_COUNTER, FaultPlan, FaultyFleet
from tests.engine.fleet.faulty_runs import train_run, with_fleet
from tests.engine.fleet.network_model import lognormal

from sparring.core.rng import Stream
from sparring.run.events import METRICS, TIMING, read_lines

LAW = {"mean": 0.8, "sigma": 1.2}  # seconds that the answer to a play is held back
CELLS = [*(("pinned", lag) for lag in (0, 1, 2, 4)), *(("fresh", lag) for lag in (1, 2, 4))]


def cell(order, lag, options):
    """Train; return the seconds from the first step on, the mean seconds of the learner, and the
    lines of metrics.jsonl."""
    changes = [
        *("threads=1", "warmup.updates=0", f"steps={options.steps}", "evaluation.exact=false"),
        *(f"rollout.games_per_step={options.games}", "scale.unit_games=1", "checkpoint.every=1000"),
        *("store.every=0", "scale.fleet=processes", f"scale.workers={options.workers}"),
        *(f"scale.lag={lag}", f"scale.order={order}"),
    ]
    config = with_fleet(configured("kuhn-tiny", changes), "processes", options.workers)
    clock = []

    def through(fleet):
        return FaultyFleet(Ready(fleet, options.workers, clock), 0, FaultPlan(**LAW))

    with tempfile.TemporaryDirectory() as folder:
        train_run(config, Path(folder) / "run", through)
        timing = read_lines(Path(folder) / "run" / TIMING)
        learner = statistics.mean(line["seconds/round"] - line["seconds/play"] for line in timing)
        return clock[-1] - clock[0], learner, read_lines(Path(folder) / "run" / METRICS)


def unit_seconds(unit):
    """Return how long the answer to a unit is held back: what `FaultyFleet` draws with seed 0."""
    stream = Stream.from_seed(0).child("chaos").child("unit").child(unit)
    return lognormal(stream, SECONDS_COUNTER, LAW["mean"], LAW["sigma"])


def modelled(order, lag, learner, options):
    """Return the seconds that the event model says."""
    setting = Setting(
        workers=options.workers,
        lag=lag,
        steps=options.steps,
        units=options.games,
        unit=unit_seconds,
        learner=learner,
        pull=0.0,
        timeout=1e5,
    )
    return (
        simulate_fresh(setting).outcome.seconds if order == "fresh" else simulate(setting).seconds
    )


def main(options):
    """Return a row for each order and lag."""
    rows, first = [], None
    for order, lag in [CELLS[0], CELLS[-1]] if options.quick else CELLS:
        seconds, learner, lines = cell(order, lag, options)
        first = first or seconds
        lags = [line.get("lag", 0.0) for line in lines]
        row = {"order": order, "lag": str(lag), "seconds": seconds, "ratio": first / seconds}
        row["modelled seconds"] = modelled(order, lag, learner, options)
        row["lag, mean"] = statistics.mean(lags)
        row["lag, most"] = max(line.get("lag_max", line.get("lag", 0.0)) for line in lines)
        row["withheld"] = lines[-1].get("withheld_games", 0.0)
        row["load"] = os.getloadavg()[1]
        if wrong := row_faults(row):  # now, and not when a quarter of an hour is over
            sys.exit(" ".join(wrong))
        rows.append(row)
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--games", type=int, default=32, help="of a step")
    options = settings(parser, quick={"steps": 2, "games": 4, "workers": 2})
    record("scale-fresh", main(options), options)

"""The gain of fresh order over pinned order if some episodes take ten times as long as others.

    python benchmarks/fresh.py

Each result of a unit of one episode is delayed by a lognormal time with sigma 1.2, as if the
episode took that long; a unit has the same delay in every cell. The script mostly waits: a quarter
of an hour on an idle machine. `--steps` and `--workers` make it smaller. "load" is the machine's
load average of the last five minutes, at the end of a run: other work slows learner and messages.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from published import errors_of_row, record, settings
from scale import AllReadyFleet, config_with_overrides
from scale_model import Setting, simulate, simulate_fresh
from tests.engine.fleet.faulty_fleet import SECONDS_COUNTER, FaultPlan, FaultyFleet
from tests.engine.fleet.faulty_runs import train_run, with_fleet
from tests.engine.fleet.network_model import lognormal

from sparring.core.rng import Stream
from sparring.run.events import METRICS, TIMING, read_lines

DELAY = {"mean": 0.8, "sigma": 1.2}  # seconds by which the result of a unit is delayed (lognormal)
CELLS = [*(("pinned", lag) for lag in (0, 1, 2, 4)), *(("fresh", lag) for lag in (1, 2, 4))]


def train_cell(order, lag, options):
    """Train a cell; return the seconds since its first step, the mean seconds of the learner, and
    the lines of metrics.jsonl.
    """
    overrides = [
        *("threads=1", "warmup.updates=0", f"steps={options.steps}", "evaluation.exact=false"),
        *(f"rollout.games_per_step={options.games}", "scale.unit_games=1", "checkpoint.every=1000"),
        *("store.every=0", "scale.fleet=processes", f"scale.workers={options.workers}"),
        *(f"scale.lag={lag}", f"scale.order={order}"),
    ]
    config = with_fleet(config_with_overrides("kuhn-tiny", overrides), "processes", options.workers)
    clock = []

    def with_delays(fleet):
        return FaultyFleet(AllReadyFleet(fleet, options.workers, clock), 0, FaultPlan(**DELAY))

    with tempfile.TemporaryDirectory() as folder:
        train_run(config, Path(folder) / "run", with_delays)
        timing = read_lines(Path(folder) / "run" / TIMING)
        learner = statistics.mean(line["seconds/round"] - line["seconds/play"] for line in timing)
        return clock[-1] - clock[0], learner, read_lines(Path(folder) / "run" / METRICS)


def delay_of_unit(unit):
    """Return the delay of a unit's result in seconds, which `FaultyFleet` draws with seed 0."""
    stream = Stream.from_seed(0).child("chaos").child("unit").child(unit)
    return lognormal(stream, SECONDS_COUNTER, DELAY["mean"], DELAY["sigma"])


def simulated_seconds(order, lag, learner, options):
    """Return the seconds that the event simulation predicts."""
    setting = Setting(
        workers=options.workers,
        lag=lag,
        steps=options.steps,
        units=options.games,
        unit=delay_of_unit,
        learner=learner,
        pull=0.0,
        timeout=1e5,
    )
    return (
        simulate_fresh(setting).outcome.seconds if order == "fresh" else simulate(setting).seconds
    )


def measure_all(options):
    """Return a row for each order and lag."""
    rows, first = [], None
    for order, lag in [CELLS[0], CELLS[-1]] if options.quick else CELLS:
        seconds, learner, lines = train_cell(order, lag, options)
        first = first or seconds
        lags = [line.get("lag", 0.0) for line in lines]
        row = {"order": order, "lag": str(lag), "seconds": seconds, "ratio": first / seconds}
        row["modelled seconds"] = simulated_seconds(order, lag, learner, options)
        row["lag, mean"] = statistics.mean(lags)
        row["lag, most"] = max(line.get("lag_max", line.get("lag", 0.0)) for line in lines)
        row["withheld"] = lines[-1].get("withheld_games", 0.0)
        row["load"] = os.getloadavg()[1]
        if wrong := errors_of_row(row):  # checked now, not after a quarter of an hour
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
    record("scale-fresh", measure_all(options), options)

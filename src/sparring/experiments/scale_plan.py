"""What a run would be like on many workers, by the model of ``scale_model`` and a probe's times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from sparring.experiments.scale_model import Outcome, Setting, simulate
from sparring.experiments.scale_probe import Probe
from sparring.rng import Stream

NEAR = 0.03  # share of the best rate that a smaller lag may be behind it
STEPS = 24  # that are modelled
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A run with some lag, as the model has it.

    Args:
        lag: as ``scale.lag``.
        outcome: of the model.
        plays: in a second.
        messages: units that the training process sends and takes, in a second.
        weights: MiB of weights that workers read in a second.
        gain: how many times as fast as lag 0.
    """

    lag: int
    outcome: Outcome
    plays: float
    messages: float
    weights: float
    gain: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Rows by lag, and what to take.

    Args:
        workers: how many there are.
        rows: by lag.
        alone: plays in a second of the training process by itself.
        lag: the smallest within 3 % of the best.
    """

    workers: int
    rows: tuple[Row, ...]
    alone: float
    lag: int


def plan(
    found: Probe, *, workers: int, lags: Sequence[int], deaths: float = 0.0, seed: int = 0
) -> Plan:
    """Return what a run would be like.

    Args:
        found: its times on one machine.
        workers: how many there are to be.
        lags: to compare; 0 is added.
        deaths: of a worker in an hour.
        seed: of what is drawn.

    Raises:
        RolloutError: too many workers die.
    """
    rows: list[Row] = []
    for lag in sorted({0, *lags}):
        outcome = simulate(
            Setting(
                workers=workers,
                lag=lag,
                steps=STEPS + 2 * lag,
                units=found.units,
                unit=units_of(found, seed),
                learner=found.learner,
                message=found.message,
                deaths=deaths,
                seed=seed,
            )
        )
        plays = found.plays / outcome.step_seconds
        rows.append(
            Row(
                lag=lag,
                outcome=outcome,
                plays=plays,
                messages=found.units / outcome.step_seconds,
                weights=workers * found.weights_bytes / MIB / outcome.step_seconds,
                gain=plays / rows[0].plays if rows else 1.0,
            )
        )
    best = max(row.plays for row in rows)
    lag = next(row.lag for row in rows if row.plays >= (1.0 - NEAR) * best)
    step = found.units * statistics.mean(found.units_seconds) + found.learner
    return Plan(workers=workers, rows=tuple(rows), alone=found.plays / step, lag=lag)


def units_of(found: Probe, seed: int) -> Callable[[int], float]:
    """Return the seconds of units by number: lognormal, with the mean and spread of a probe's."""
    logs = [math.log(max(seconds, 1e-9)) for seconds in found.units_seconds]
    mean = statistics.mean(found.units_seconds)
    sigma = statistics.pstdev(logs)
    root = Stream.from_seed(seed).child("units")

    @cache
    def seconds(unit: int) -> float:
        normal = float(root.child(unit).generator().standard_normal())
        return mean * math.exp(sigma * normal - sigma**2 / 2)

    return seconds


def limit_in_words(found: Probe, row: Row, workers: int) -> str:
    """Return in a sentence what limits a run, with the figure behind it."""
    outcome = row.outcome
    said = {
        "messages": (
            f"the training process: it needs {1000 * found.message:.2g} ms for each of "
            f"{found.units} units of a step; workers cannot help with that"
        ),
        "players": (
            f"the players: a unit takes {found.unit:.3g} s, and a step has {found.units} of them; "
            "more workers help"
        ),
        "learner": (
            f"the learner: it needs {found.learner:.3g} s for a step; more workers do not help"
        ),
        "tail": (
            f"waiting: workers play for {outcome.busy:.0%} of their time and the learner learns "
            f"for {outcome.learner_busy:.0%} of its. "
            + (
                f"A step has {found.units} units for {workers} workers: smaller ones help"
                if found.units < 2 * workers
                else "A larger lag helps"
            )
        ),
    }
    return said[outcome.limit]

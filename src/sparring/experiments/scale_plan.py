"""What a run would be like on many workers, by the model of ``scale_model`` and a probe's times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from sparring.experiments.scale_file import Probe
from sparring.experiments.scale_model import Outcome, Setting, simulate
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
        over_one: how many times as fast as one process without workers.
        limit: in a sentence, what limits it.
    """

    lag: int
    outcome: Outcome
    plays: float
    messages: float
    weights: float
    gain: float
    over_one: float
    limit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Rows by lag, and what to take.

    Args:
        workers: how many there are.
        memory: MiB of all workers.
        rows: by lag.
        alone: plays in a second of one process without workers.
        lag: the smallest within 3 % of the best.
        twice: how many times as fast that lag is with twice as many workers.
    """

    workers: int
    memory: float
    rows: tuple[Row, ...]
    alone: float
    lag: int
    twice: float

    @property
    def chosen(self) -> Row:
        """The row of the lag to take."""
        return next(row for row in self.rows if row.lag == self.lag)

    @property
    def more_help(self) -> bool:
        """Whether more workers would make it faster by more than 3 %."""
        return self.twice > 1.0 + NEAR


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
    unit = units_of(found, seed)

    def outcome(workers: int, lag: int) -> Outcome:
        return simulate(
            Setting(
                workers=workers,
                lag=lag,
                steps=STEPS + 2 * lag,
                units=found.units,
                unit=unit,
                learner=found.learner + found.seating + found.write,
                message=found.message,
                together=found.together,
                pull=found.load,
                deaths=deaths,
                seed=seed,
            )
        )

    own = {lag: outcome(workers, lag) for lag in sorted({0, *lags})}
    rows = tuple(_row(found, workers, lag, own) for lag in own)
    best = max(row.plays for row in rows)
    lag = next(row.lag for row in rows if row.plays >= (1.0 - NEAR) * best)
    return Plan(
        workers=workers,
        memory=workers * found.memory_bytes / MIB,
        rows=rows,
        alone=found.plays / found.alone,
        lag=lag,
        twice=own[lag].step_seconds / outcome(2 * workers, lag).step_seconds,
    )


def _row(found: Probe, workers: int, lag: int, outcomes: dict[int, Outcome]) -> Row:
    """Return the figures of a lag."""
    own = outcomes[lag]
    return Row(
        lag=lag,
        outcome=own,
        plays=found.plays / own.step_seconds,
        messages=found.units / own.step_seconds,
        weights=workers * found.weights_bytes / MIB / own.step_seconds,
        gain=outcomes[0].step_seconds / own.step_seconds,
        over_one=found.alone / own.step_seconds,
        limit=limit_in_words(found, own, workers),
    )


def units_of(found: Probe, seed: int) -> Callable[[int], float]:
    """Return the seconds of units by number: lognormal, with the mean and spread of a probe's."""
    sigma, root = found.log_sigma, Stream.from_seed(seed).child("units")

    @cache
    def seconds(unit: int) -> float:
        normal = float(root.child(unit).generator().standard_normal())
        return found.unit * math.exp(sigma * normal - sigma**2 / 2)

    return seconds


def limit_in_words(found: Probe, outcome: Outcome, workers: int) -> str:
    """Return in a sentence what limits a run, with the figure behind it."""
    learner = found.learner + found.seating + found.write
    few = found.units < 2 * workers
    said = {
        "messages": (
            f"the training process: it needs {1000 * found.message:.2g} ms for each of "
            f"{found.units} units of a step; workers cannot help with that"
        ),
        "players": (
            f"the players: a unit takes {found.unit:.3g} s, and a step has {found.units} of them; "
            "more workers help"
        ),
        "learner": f"the learner: it needs {learner:.3g} s for a step; more workers do not help",
        "tail": (
            f"waiting: workers play for {outcome.busy:.0%} of their time and the learner learns "
            f"for {outcome.learner_busy:.0%} of its. "
            + (
                f"A step has {found.units} units for {workers} workers: smaller ones, or a larger "
                "lag, help"
                if few
                else "A larger lag helps"
            )
        ),
    }
    return said[outcome.limit]

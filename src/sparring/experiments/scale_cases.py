"""Runs that the model of ``scale_model`` is asked of: laws of units, and the tables of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sparring.experiments.scale_model import Setting, simulate
from sparring.rng import Stream


def lognormal_units(seed: int, mean: float, sigma: float, plays: int = 1) -> Callable[[int], float]:
    """Return the seconds of units by number.

    Args:
        seed: of the draws.
        mean: seconds of one play, from a lognormal law.
        sigma: standard deviation of their logarithm.
        plays: of a unit, side by side: it takes as long as the longest of them.
    """
    root = Stream.from_seed(seed).child("units")
    scale = mean * math.exp(-(sigma**2) / 2)

    def seconds(unit: int) -> float:
        draws: Any = root.child(unit).generator().standard_normal(plays)
        return scale * math.exp(sigma * float(draws.max()))

    return seconds


def thousand_workers(
    workers: int = 1000, lags: Sequence[int] = (0, 1, 2, 4), steps: int = 12, seeds: int = 5
) -> list[dict[str, Any]]:
    """Return rows of a results file: a run with many workers, by lag, with the values by seed.

    A step has 32 plays per worker, in units of 4 side by side. A play takes 2 seconds, lognormal
    with sigma 0.8, and the learner 16 seconds a step. A worker dies once an hour.
    """
    per_worker, plays = 8, 4
    rows: dict[int, dict[str, Any]] = {}
    for seed in range(seeds):
        unit = cache(lognormal_units(seed, 2.0, 0.8, plays))
        for lag in lags:
            found = simulate(
                Setting(
                    workers=workers,
                    lag=lag,
                    steps=steps,
                    units=workers * per_worker,
                    unit=unit,
                    learner=16.0,
                    deaths=1.0,
                    seed=seed,
                )
            )
            figures = {
                "seconds": found.step_seconds,
                "plays/s": workers * per_worker * plays / found.step_seconds,
                "share in play": found.busy,
                "share learning": found.learner_busy,
                "share in messages": found.messages_busy,
                "lost share": found.lost,
            }
            labels = {"workers": str(workers), "lag": str(lag), "starts": "all", "limit": ""}
            row = rows.setdefault(lag, labels)
            row["limit"] = found.limit
            for name, value in figures.items():
                row.setdefault("values", {}).setdefault(name, {})[str(seed)] = value
    return list(rows.values())


def held_back_seconds(
    *, workers: int, lag: int, steps: int, units: int, unit: Callable[[int], float], learner: float
) -> float:
    """Return the seconds of a whole run on workers that are ready.

    Args:
        workers: as in ``Setting``, like all others.
        lag: as above.
        steps: as above.
        units: as above.
        unit: as above.
        learner: as above.
    """
    setting = Setting(
        workers=workers, lag=lag, steps=steps, units=units, unit=unit, learner=learner, pull=0.0
    )
    return simulate(setting).seconds

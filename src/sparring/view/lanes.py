"""What each worker did over the steps of a run: from the figures of timing.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparring.engine.lanes import LANES
from sparring.view.runs import Run

Lines = Sequence[Mapping[str, Any]]


def lanes(run: Run, told: Lines) -> dict[str, Any]:
    """Return the shares of each step in which workers played, waited and were not there.

    Args:
        run: whose workers they are.
        told: lines of timing.jsonl in which workers played.

    Returns:
        ``lanes``, one for each worker whose own figures are recorded, and ``all``, what the totals
        of a step say of all workers together: it counts who was there at the end of the step.
    """
    wanted = _wanted(run, told)
    return {
        "wanted": wanted,
        "all": {
            "playing": [_share(1 - line["workers_idle"]) for line in told],
            "ready": [_there(line, wanted) for line in told],
            "lost": _lost(told, "lost_workers"),
        },
        "lanes": [
            _lane(told, worker)
            for worker in range(LANES)
            if any(f"worker/{worker}/playing" in line for line in told[-1:])
        ],
    }


def _wanted(run: Run, told: Lines) -> int:
    """Return how many workers there are to be."""
    scale = run.config.get("scale")
    wanted = scale.get("workers") if isinstance(scale, Mapping) else None
    most = max((int(line["workers"]) for line in told), default=0)
    return max(wanted if type(wanted) is int else 0, most, 1)


def _lane(told: Lines, worker: int) -> dict[str, Any]:
    """Return what is recorded of one worker."""
    own = f"worker/{worker}"
    return {
        "worker": worker,
        "playing": [_share(line.get(f"{own}/playing")) for line in told],
        "ready": [_share(line.get(f"{own}/ready")) for line in told],
        "lost": _lost(told, f"{own}/lost"),
    }


def _there(line: Mapping[str, Any], wanted: int) -> float | None:
    """Return the share of the workers that were there; those that played were."""
    played, there = _share(1 - line["workers_idle"]), _share(line["workers"] / wanted)
    return there if played is None or there is None else max(played, there)


def _share(value: Any) -> float | None:
    """Return a share as one between 0 and 1; None where it is not recorded."""
    if value is None or not math.isfinite(value):
        return None
    return round(min(max(float(value), 0.0), 1.0), 3)


def _lost(told: Lines, name: str) -> list[list[Any]]:
    """Return the steps in which workers were lost, and how many times."""
    return [[line["step"], line[name]] for line in told if line.get(name, 0.0) > 0]

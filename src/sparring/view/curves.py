"""Curves of a run: thinned, over one of four axes, and only what is new."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.view.answers import Refused
from sparring.view.figures import Figures, axis, thinned
from sparring.view.runs import Run

AXES = ("step", "plays", "tokens", "seconds")
POINTS = 2000  # of a curve, at most
EVENTS = 500  # newest ones that are sent


def series(run: Run, names: Sequence[str], x: str, since: str, points: int) -> dict[str, Any]:
    """Return curves of a run, and the events of its health rules.

    Args:
        run: refreshed, its lock held.
        names: of figures of metrics.jsonl or timing.jsonl.
        x: one of ``AXES``.
        since: the cursor of an earlier answer; only what is newer is returned then.
        points: of a curve, at most.

    Raises:
        Refused: there is no such axis.
    """
    if x not in AXES:
        raise Refused(400, f"x is one of {', '.join(AXES)}")
    ends = _ends(run, x)
    begins, fresh = _begins(run, since, ends)
    found = {}
    for name in names:
        for place, figures in enumerate((run.metrics, run.timing)):
            if name in figures.curves:
                span = (begins[place], ends[place])
                found[name] = _curve(run, figures, name, x, span, points)
                break
    events = run.health.events[begins[2] : ends[2]][-EVENTS:]
    places = axis(x, [event["step"] for event in events], run.timing).tolist()
    return {
        "run": run.number,
        "x": x,
        "cursor": ".".join(map(str, (*_generations(run), *ends))),
        "from_start": fresh,
        "series": found,
        "events": [event | {"x": place} for event, place in zip(events, places, strict=True)],
    }


def _generations(run: Run) -> list[int]:
    """Return how often each file of a run was replaced."""
    return [lines.generation for lines in (run.metrics, run.timing, run.health)]


def _ends(run: Run, x: str) -> list[int]:
    """Return how many lines of each file are shown.

    A line of metrics is written before the one of timing that says where it lies.
    """
    metrics = len(run.metrics.steps)
    if x != "step" and run.timing.steps:
        metrics = bisect_right(run.metrics.steps, run.timing.steps[-1])
    return [metrics, len(run.timing.steps), len(run.health.events)]


def _begins(run: Run, since: str, ends: Sequence[int]) -> tuple[list[int], bool]:
    """Return from which lines on files are shown, and whether that is from the start."""
    parts = since.split(".")
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() for part in parts):
        return [0, 0, 0], True
    numbers = [int(part[:18]) for part in parts]
    begins = numbers[3:]
    if numbers[:3] != _generations(run) or any(map(int.__gt__, begins, ends)):
        return [0, 0, 0], True
    return begins, False


def _curve(
    run: Run, figures: Figures, name: str, x: str, span: tuple[int, int], points: int
) -> dict[str, Any]:
    """Return a curve between two lines of its file."""
    curve = figures.curves[name]
    first, last = np.searchsorted(np.array(curve.lines), span)
    steps = np.array(figures.steps)[np.array(curve.lines[first:last], dtype=np.int64)]
    values = np.array(curve.values[first:last])
    places = axis(x, steps.tolist(), run.timing)
    kept = thinned(places, values, points)
    return {
        "step": steps[kept].tolist(),
        "x": places[kept].tolist(),
        "y": values[kept].tolist(),
        "thinned": len(kept) < len(values),
    }


def spark(run: Run, name: str, points: int) -> list[float] | None:
    """Return the values of a figure for a small picture; None where the run has none."""
    curve = run.metrics.curves.get(name) or run.timing.curves.get(name)
    if curve is None:
        return None
    values = np.array(curve.values)
    found: list[float] = values[thinned(values, values, points)].tolist()
    return found


def differences(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the keys of configurations that are not equal in all runs, with the values."""
    keys = sorted({key for run in runs for key in run.flat})
    rows = [{"key": key, "values": [run.flat.get(key) for run in runs]} for key in keys]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]

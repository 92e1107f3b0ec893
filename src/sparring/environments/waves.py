"""Waves of a lead and the workers that it calls: what they cost, and what is counted of them.

A wave is a call of the lead: so many workers, who work at once, and all of whom it waits for. A
wave is written as the steps of each of its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FIGURES = (
    *("waves", "width", "critical_steps", "total_steps"),
    *("called", "finished", "parallel", "finished_share"),
)
Wave = Sequence[int]  # steps of each worker that was called


def critical_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the lead's steps, and those of the slowest worker of each wave."""
    return lead + sum(max(wave, default=0) for wave in waves)


def total_steps(lead: int, waves: Iterable[Wave]) -> int:
    """Return the steps of all seats."""
    return lead + sum(map(sum, waves))


def counted(lead: int, waves: Sequence[Wave], finished: int, workers: int) -> dict[str, float]:
    """Return the figures of FIGURES, of a play that is over.

    Mathematics: with w_t workers in wave t, W at most, and F calls of a worker that ended well

        parallel = (max over t of w_t - 1) / (W - 1)
        finished_share = F / sum over t of w_t

    and 0 where nothing can be divided.

    Args:
        lead: its steps.
        waves: steps of the workers of each.
        finished: F.
        workers: W; 0: one seat works alone.
    """
    width, called = max(map(len, waves), default=0), sum(map(len, waves))
    return {
        "waves": float(len(waves)),
        "width": float(width),
        "critical_steps": float(critical_steps(lead, waves)),
        "total_steps": float(total_steps(lead, waves)),
        "called": float(called),
        "finished": float(finished),
        "parallel": max(width - 1, 0) / (workers - 1) if workers > 1 else 0.0,
        "finished_share": finished / called if called else 0.0,
    }

"""What each worker did since it was last asked for: played, waited, was not there, was lost.

Timing, in timing.jsonl:
    worker/N/playing        share of the time since the step before in which worker N played; of the
                            first 16 workers, from the second step on
    worker/N/ready          share of it in which it was there: it played, or waited for plays
    worker/N/lost           how often it was lost in it; only where it was
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LANES = 16  # workers of which figures are recorded, so that a line stays short


class Lane(NamedTuple):
    """What a worker has done so far.

    Attributes:
        playing: seconds in which it played.
        ready: seconds in which it was there.
        lost: how often it was lost.
    """

    playing: float
    ready: float
    lost: int


class Lanes:
    """The figures of the first workers, from one asking to the next."""

    def __init__(self) -> None:
        self._before: Sequence[Lane] = ()
        self._clock = 0.0

    def since(self, lanes: Sequence[Lane], now: float) -> dict[str, float]:
        """Return the figures listed above; none at the first asking.

        Args:
            lanes: of all workers.
            now: the time, seconds.
        """
        before, seconds = self._before, now - self._clock
        self._before, self._clock = lanes[:LANES], now
        found: dict[str, float] = {}
        for number, (old, new) in enumerate(zip(before, self._before, strict=False)):
            if seconds > 0:
                found[f"worker/{number}/playing"] = (new.playing - old.playing) / seconds
                found[f"worker/{number}/ready"] = (new.ready - old.ready) / seconds
            if new.lost > old.lost:
                found[f"worker/{number}/lost"] = float(new.lost - old.lost)
        return found

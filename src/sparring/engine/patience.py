"""How long a worker may take for what it was sent."""

from __future__ import annotations

import statistics
import sys
from collections import deque

LEAST = 60.0  # seconds that a message may always take
TIMES = 20.0  # the median of the units so far, that one may take
MESSAGE = 1.0  # seconds of play that a message may hold, about, if units are shorter
REMEMBERED = 256  # units of which the median is taken


class Patience:
    """The limit of a message, from what units have taken so far.

    Args:
        timeout: seconds that a unit may take; None: 20 times the median of those so far, and a
            message 60 at least. Until the first answer a unit counts as one of 60 seconds.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout, self._median = timeout, LEAST
        self._took: deque[float] = deque(maxlen=REMEMBERED)  # seconds of a unit

    def took(self, seconds: float, units: int) -> None:
        """Take note that a message of so many units was answered after so many seconds."""
        self._took.extend([seconds / units] * min(units, REMEMBERED))
        self._median = statistics.median(self._took)

    @property
    def most(self) -> int:
        """The units that one message may hold: so many that none waits long behind others."""
        return max(int(MESSAGE / max(self._median, 1e-6)), 1) if self._took else sys.maxsize

    def allowed(self, units: int) -> float:
        """Return the seconds that a message of so many units may take."""
        if self._timeout is not None:
            return units * self._timeout
        return max(LEAST, units * TIMES * self._median)

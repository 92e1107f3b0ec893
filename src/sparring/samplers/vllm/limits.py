"""How often replicas may be lost, or weights be refused, until a pool gives up."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

from sparring.errors import RunError
from sparring.samplers.vllm.asked import PROBE, Ask
from sparring.samplers.vllm.replica import Replica

HOUR = 3600.0
STARTS = 2  # times in a row that a replica may end before it was ready
WRONGS = 2  # times in a row that weights may be refused, by a replica or by the check
LOSSES = 3  # replicas that one request may end


class Limits:
    """What has gone wrong with the replicas of a pool.

    Args:
        restarts: replicas that may be lost in an hour.

    Attributes:
        lost: replicas that were lost, in all.
    """

    def __init__(self, restarts: int) -> None:
        self._restarts, self.lost = restarts, 0
        self._when: deque[float] = deque()  # of the last hour
        self._early: Counter[int] = Counter()  # how often in a row each ended before it was ready
        self._wrong: Counter[int] = Counter()  # and had wrong weights

    def ready(self, replica: Replica) -> None:
        """Note that a replica is ready for weights."""
        self._early[replica.number] = 0

    def right(self, replica: Replica) -> None:
        """Note that a replica computes what its weights give."""
        self._wrong[replica.number] = 0

    def forget(self) -> None:
        """Note that all begins anew; what was lost in the last hour stays."""
        self._early.clear()
        self._wrong.clear()

    def wrong(self, replica: Replica, what: str) -> None:
        """Note that weights were refused.

        Raises:
            RunError: too often in a row.
        """
        self._wrong[replica.number] += 1
        if self._wrong[replica.number] >= WRONGS:
            raise _gives_up(f"replica {replica.number} {what}.{replica.last_words()}")

    def ended(self, replica: Replica, asked: Sequence[Ask], why: str) -> None:
        """Note that a replica is lost, before it is ended.

        Args:
            replica: the replica.
            asked: requests that it has not answered.
            why: as a sentence goes on after its name.

        Raises:
            RunError: it cannot be started, replicas are lost too often, or over one request.
        """
        what, words = f"replica {replica.number} {why}", replica.last_words()
        if replica.stage == "starting":
            self._early[replica.number] += 1
            if self._early[replica.number] >= STARTS:
                raise _gives_up(f"{what}, before it was ready, {STARTS} times in a row.{words}")
        for ask in asked:
            ask.lost += ask.place != PROBE
            if ask.lost >= LOSSES:
                raise _gives_up(f"{what}, the third one that ended over one request.{words}")
        now, self.lost = time.monotonic(), self.lost + 1
        self._when = deque(at for at in (*self._when, now) if at > now - HOUR)
        if len(self._when) > self._restarts:
            often = f"{len(self._when)} were lost in an hour (sampler.restarts)"
            raise _gives_up(f"{what}, and {often}.{words}")


def _gives_up(what: str) -> RunError:
    """Return the error of a pool that gives up."""
    return RunError(f"The sampler vllm gives up: {what}")

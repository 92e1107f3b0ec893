"""Requests that wait, and which replica is to have which weights.

Weights are taken in the order in which requests for them came. A replica keeps its weights as long
as requests for them wait; if those that came first have no replica, later ones are not sent, so
that one becomes free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from sparring.errors import ModelError
from sparring.samplers.vllm.asked import Ask
from sparring.samplers.vllm.replica import Replica
from sparring.samplers.vllm.weights import Key, Served


class Line:
    """Requests in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Ask] = deque()

    def add(self, asks: Sequence[Ask]) -> None:
        """Let requests wait behind all others."""
        self._waiting.extend(asks)

    def again(self, asks: Sequence[Ask]) -> None:
        """Let requests wait in front of all others, in their order."""
        self._waiting.extendleft(sorted(asks, key=lambda ask: ask.number, reverse=True))

    def drop(self, asks: Sequence[Ask]) -> None:
        """Forget requests."""
        if asks and self._waiting:
            gone = {ask.number for ask in asks}
            self._waiting = deque(ask for ask in self._waiting if ask.number not in gone)

    def renew(self) -> None:
        """Let requests that take newer weights wait for those of now."""
        for ask in self._waiting:
            if ask.renews:
                ask.key = ask.served.key

    def clear(self) -> list[Ask]:
        """Forget all requests; return them."""
        left, self._waiting = list(self._waiting), deque()
        return left

    def wanting(self, replicas: Sequence[Replica]) -> Iterator[tuple[Replica, Served]]:
        """Yield the replicas that are to load weights, and which.

        Raises:
            ModelError: the weights that requests are to be drawn with have changed since.
        """
        weights = self._weights()
        for place, (key, served) in enumerate(weights.items()):
            if any(replica.key == key for replica in replicas):
                continue
            later = list(weights)[place:]
            free = _free(replicas, unwanted=later[1:], wanted=weights)
            if free is None:
                return
            yield free, _unchanged(key, served)
        waiting = list(self._waiting)
        for key, served in weights.items():
            own = sum(replica.key == key for replica in replicas)
            count = sum(ask.key == key for ask in waiting)
            while own < count and (free := _free(replicas, unwanted=(), wanted=weights)):
                own += 1
                yield free, _unchanged(key, served)

    def next(self, replicas: Sequence[Replica]) -> Iterator[tuple[Replica, list[Ask]]]:
        """Yield replicas with the requests that they are to be sent, of one kind and way."""
        ready: dict[Key, list[Replica]] = {}
        for key in self._weights():
            own = [replica for replica in replicas if replica.key == key]
            if not own:
                break  # what came later waits until one is free for these
            if all(replica.stage == "ready" for replica in own):
                ready[key] = own
        waiting, self._waiting = self._waiting, deque()
        found: dict[tuple[int, str, int], tuple[Replica, list[Ask]]] = {}
        load = {replica.number: len(replica.asked) for replica in replicas}
        for ask in waiting:
            if ask.key not in ready:
                self._waiting.append(ask)
                continue
            replica = min(ready[ask.key], key=lambda one: load[one.number])
            load[replica.number] += 1
            at = replica.number, ask.kind, id(ask.way)
            found.setdefault(at, (replica, []))[1].append(ask)
        yield from found.values()

    def _weights(self) -> dict[Key, Served]:
        """Return the weights that requests wait for, first those of the first."""
        found: dict[Key, Served] = {}
        for ask in self._waiting:
            found.setdefault(ask.key, ask.served)
        return found


def _free(
    replicas: Sequence[Replica], *, unwanted: Sequence[Key], wanted: dict[Key, Served]
) -> Replica | None:
    """Return a replica that may take other weights, or None.

    It is ready and idle, and its weights are wanted by nobody, or by requests that come later.
    """
    idle = [one for one in replicas if one.stage == "ready" and not one.asked]
    for one in idle:
        if one.key not in wanted:
            return one
    return next((one for one in idle if one.key in unwanted), None)


def _unchanged(key: Key, served: Served) -> Served:
    """Return weights, if they are still those that requests were made for.

    Raises:
        ModelError: they are not.
    """
    if served.key != key:
        raise ModelError(
            "The weights have changed while replies that were to be drawn with those of before "
            "still waited for a replica. Take all that a call of submit yields before the next "
            "update, or close it."
        )
    return served

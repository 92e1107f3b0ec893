"""Harm to a fleet that works: workers killed and stopped, answers held back, repeated, spoilt.

It stands between the training process and any other fleet. What it draws for an answer is a
function of the seed and of the units' numbers, so that a unit that is played again is held back as
long again. Held back alone, answers tell how a run goes where messages take long.
"""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.engine.workers.fleet.base import Fleet, WorkerMessage
from sparring.engine.workers.units import numbers_of
from tests.engine.fleet.network_model import lognormal, rubbish

FATE, WHEN, TIME, AGAIN = range(4)  # counters of the draws for a message
SLICE = 0.05  # seconds between looks at what is to be killed
USUAL = 0.5  # seconds that a message is thought to take before one was answered


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultPlan:
    """What is done to a fleet.

    Args:
        mean: seconds that the answer to a unit is held back, from a lognormal law with this mean.
        sigma: standard deviation of their logarithm.
        kills: workers that are killed, in all.
        hangs: workers that are stopped, in all; only processes can be.
        chance: that a message is one after which a worker is killed, or stopped, until all are.
        twice: chance that an answer is given twice.
        rubbish: chance that something else is given in place of an answer.
        most: workers that may be lost over a unit. One that has ended three is given up.
    """

    mean: float = 0.0
    sigma: float = 0.0
    kills: int = 0
    hangs: int = 0
    chance: float = 0.3
    twice: float = 0.0
    rubbish: float = 0.0
    most: int = 2


@dataclass(slots=True)
class Done:
    killed: int = 0
    stopped: int = 0
    held_back: int = 0
    given_twice: int = 0
    spoilt: int = 0


class _Due(NamedTuple):
    time: float
    order: int
    worker: int
    life: int  # which of the worker's lives it is of
    what: bytes | signal.Signals


@dataclass(slots=True)
class _Worker:
    life: int
    units: tuple[int, ...] = ()
    since: float = 0.0
    killed: bool = False  # and not yet noticed to be gone


class FaultyFleet:
    """A fleet that is harmed.

    Args:
        fleet: where the workers run.
        seed: what happens is a function of it and, for kills, of the time.
        harm: what is done.

    Raises:
        ConfigError: workers are to be stopped that are no processes of this machine.
    """

    def __init__(self, fleet: Fleet, seed: int, harm: FaultPlan) -> None:
        if harm.hangs and not hasattr(fleet, "pids"):
            raise ConfigError("Only worker processes can be stopped; leave out --hangs.")
        self.workers, self.apart, self.elastic = fleet.workers, fleet.apart, fleet.elastic
        self.harm, self.done = harm, Done()
        self._fleet, self._root = fleet, Stream.from_seed(seed).child("chaos")
        self._order, self._usual = itertools.count(), USUAL
        self._lock = threading.Lock()  # guards what follows
        self._due: list[_Due] = []  # a heap
        self._there: dict[int, _Worker] = {}
        self._ended, self._sent = Counter[int](), Counter[int]()  # workers by unit, and messages
        self._left = Counter({signal.SIGKILL: harm.kills, signal.SIGSTOP: harm.hangs})

    def now(self) -> float:
        """Return the seconds on its clock; see ``Fleet``."""
        return self._fleet.now()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        with self._lock:
            self._there[worker] = _Worker(next(self._order))
        self._fleet.start(worker)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        with self._lock:
            own = self._there.get(worker)
            if own is not None:
                own.units, own.since = numbers_of(message), self.now()
                self._doom(worker, own)
        self._fleet.send(worker, message, files)

    def tell(self, message: bytes) -> None:
        """Tell workers of newer weights; see ``Fleet``."""
        self._fleet.tell(message)

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return what has come and is not held back any more; see ``Fleet``."""
        end = self.now() + seconds
        while True:
            with self._lock:
                patience = min([end, *(due.time for due in self._due[:1])]) - self.now()
                if sum(self._left.values()):
                    patience = min(patience, SLICE)
            found = self._fleet.poll(max(patience, 0.0))
            with self._lock:
                heard = [one for came in found for one in self._handle(came)] + self._take()
            if heard or self.now() >= end:
                return heard

    def end(self, worker: int) -> None:
        """End a worker at once; see ``Fleet``."""
        with self._lock:
            self._gone(worker)
        self._fleet.end(worker)

    def close(self) -> None:
        """End all workers; see ``Fleet``."""
        with self._lock:
            self._there.clear()
            self._due.clear()
        self._fleet.close()

    def counts(self) -> dict[str, int]:
        return asdict(self.done)

    def _doom(self, worker: int, own: _Worker) -> None:
        self._sent[worker] += 1
        drawn = self._root.child(worker).child(self._sent[worker])
        for kind in (signal.SIGKILL, signal.SIGSTOP):
            fate = drawn.child(int(kind))
            if self._left[kind] and fate.uniform(FATE) < self.harm.chance:
                self._left[kind] -= 1
                after = 2 * self._usual * fate.uniform(WHEN)
                self._later(self.now() + after, worker, own.life, kind)
                return

    def _later(self, time: float, worker: int, life: int, what: bytes | signal.Signals) -> None:
        heapq.heappush(self._due, _Due(time, next(self._order), worker, life, what))

    def _handle(self, heard: WorkerMessage) -> list[WorkerMessage]:
        """Take what the fleet has said; return what of it is heard at once."""
        worker, message = heard
        own = self._there.get(worker)
        if own is None:
            return []
        if message is None:
            self._gone(worker)
            return [heard]
        if not message.startswith(b'{"units"'):
            return [heard]  # no answer: it is ready, or something is wrong
        now, units = self.now(), own.units
        self._usual = now - own.since
        drawn = self._root.child("answer").child(units[0] if units else 0)
        if drawn.uniform(FATE) < self.harm.rubbish and not self._is_spared(own):
            message = rubbish(message, drawn)
            self.done.spoilt += 1
        times = [now + sum(map(self._seconds, units))]
        if drawn.uniform(AGAIN) < self.harm.twice:
            times.append(times[0] + 2 * self._usual * drawn.uniform(WHEN))
            self.done.given_twice += 1
        self.done.held_back += times[0] > now
        for time in times:
            self._later(time, worker, own.life, message)
        return []

    def _seconds(self, unit: int) -> float:
        if not self.harm.mean:
            return 0.0
        own = self._root.child("unit").child(unit)
        return lognormal(own, TIME, self.harm.mean, self.harm.sigma)

    def _take(self) -> list[WorkerMessage]:
        """Do what is due; return what is heard."""
        found: list[WorkerMessage] = []
        while self._due and self._due[0].time <= self.now():
            due = heapq.heappop(self._due)
            own = self._there.get(due.worker)
            if own is not None and own.life != due.life:
                own = None  # it has been started again since
            if isinstance(due.what, bytes):
                found += [WorkerMessage(due.worker, due.what)] if own is not None else []
            elif own is None or own.killed or self._is_spared(own):
                self._left[due.what] += 1  # another one, another time
            else:
                own.killed = due.what == signal.SIGKILL
                found += self._strike(due.worker, due.what)
        return found

    def _strike(self, worker: int, kind: signal.Signals) -> list[WorkerMessage]:
        """Kill or stop a worker; return what is heard of it."""
        pids: Mapping[int, int] | None = getattr(self._fleet, "pids", None)
        if kind == signal.SIGSTOP:
            self.done.stopped += 1
        else:
            self.done.killed += 1
        if pids is None:
            self._gone(worker)
            self._fleet.end(worker)
            return [WorkerMessage(worker, None)]
        if worker in pids:
            os.kill(pids[worker], kind)  # the fleet itself is to notice
        return []

    def _gone(self, worker: int) -> None:
        own = self._there.pop(worker, None)
        if own is not None:
            self._ended.update(own.units)

    def _is_spared(self, own: _Worker) -> bool:
        return any(self._ended[unit] >= self.harm.most for unit in own.units)

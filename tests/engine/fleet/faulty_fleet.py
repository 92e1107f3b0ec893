"""Harm to a fleet that works: workers killed and stopped, answers held back, repeated, spoilt.

What is drawn for an answer is a function of the seed and of the units' numbers: a unit that is played again is held back as long again.
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
    """What is done to a fleet."""

    mean: float = 0.0  # seconds that the answer to a unit is held back, from a lognormal law
    sigma: float = 0.0  # standard deviation of their logarithm
    kills: int = 0  # workers that are killed, in all
    hangs: int = 0  # workers that are stopped, in all; only processes can be
    chance: float = 0.3  # that a worker is killed or stopped after a message, until all are
    twice: float = 0.0  # chance that an answer is given twice
    rubbish: float = 0.0  # chance that something else is given in place of an answer
    most: int = 2  # workers that may be lost over a unit; one that has ended three is given up


@dataclass(slots=True)
class HarmCounts:
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
    """A fleet that is harmed; what happens is a function of the seed and, for kills, of the time."""

    def __init__(self, fleet: Fleet, seed: int, harm: FaultPlan) -> None:
        if harm.hangs and not hasattr(fleet, "pids"):
            raise ConfigError("Only worker processes can be stopped; leave out --hangs.")
        self.workers, self.has_processes, self.elastic = fleet.workers, fleet.has_processes, fleet.elastic
        self.harm, self.done = harm, HarmCounts()
        self._fleet, self._root = fleet, Stream.from_seed(seed).child("chaos")
        self._order, self._usual = itertools.count(), USUAL
        self._lock = threading.Lock()  # guards what follows
        self._due: list[_Due] = []  # a heap
        self._there: dict[int, _Worker] = {}
        self._ended, self._sent = Counter[int](), Counter[int]()  # workers by unit, and messages
        self._remaining = Counter({signal.SIGKILL: harm.kills, signal.SIGSTOP: harm.hangs})

    def now(self) -> float:
        return self._fleet.now()

    def start(self, worker: int) -> None:
        with self._lock:
            self._there[worker] = _Worker(next(self._order))
        self._fleet.start(worker)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        with self._lock:
            life = self._there.get(worker)
            if life is not None:
                life.units, life.since = numbers_of(message), self.now()
                self._doom(worker, life)
        self._fleet.send(worker, message, files)

    def tell(self, message: bytes) -> None:
        self._fleet.tell(message)

    def poll(self, seconds: float) -> list[WorkerMessage]:
        end = self.now() + seconds
        while True:
            with self._lock:
                patience = min([end, *(due.time for due in self._due[:1])]) - self.now()
                if sum(self._remaining.values()):
                    patience = min(patience, SLICE)
            messages = self._fleet.poll(max(patience, 0.0))
            with self._lock:
                released = [message for came in messages for message in self._handle(came)] + self._take()
            if released or self.now() >= end:
                return released

    def end(self, worker: int) -> None:
        with self._lock:
            self._gone(worker)
        self._fleet.end(worker)

    def close(self) -> None:
        with self._lock:
            self._there.clear()
            self._due.clear()
        self._fleet.close()

    def counts(self) -> dict[str, int]:
        return asdict(self.done)

    def _doom(self, worker: int, life: _Worker) -> None:
        self._sent[worker] += 1
        stream = self._root.child(worker).child(self._sent[worker])
        for kind in (signal.SIGKILL, signal.SIGSTOP):
            fate = stream.child(int(kind))
            if self._remaining[kind] and fate.uniform(FATE) < self.harm.chance:
                self._remaining[kind] -= 1
                after = 2 * self._usual * fate.uniform(WHEN)
                self._later(self.now() + after, worker, life.life, kind)
                return

    def _later(self, time: float, worker: int, life: int, what: bytes | signal.Signals) -> None:
        heapq.heappush(self._due, _Due(time, next(self._order), worker, life, what))

    def _handle(self, answer: WorkerMessage) -> list[WorkerMessage]:
        worker, message = answer
        life = self._there.get(worker)
        if life is None:
            return []
        if message is None:
            self._gone(worker)
            return [answer]
        if not message.startswith(b'{"units"'):
            return [answer]  # no answer: it is ready, or something is wrong
        now, units = self.now(), life.units
        self._usual = now - life.since
        stream = self._root.child("answer").child(units[0] if units else 0)
        if stream.uniform(FATE) < self.harm.rubbish and not self._is_spared(life):
            message = rubbish(message, stream)
            self.done.spoilt += 1
        times = [now + sum(map(self._seconds, units))]
        if stream.uniform(AGAIN) < self.harm.twice:
            times.append(times[0] + 2 * self._usual * stream.uniform(WHEN))
            self.done.given_twice += 1
        self.done.held_back += times[0] > now
        for time in times:
            self._later(time, worker, life.life, message)
        return []

    def _seconds(self, unit: int) -> float:
        if not self.harm.mean:
            return 0.0
        stream = self._root.child("unit").child(unit)
        return lognormal(stream, TIME, self.harm.mean, self.harm.sigma)

    def _take(self) -> list[WorkerMessage]:
        messages: list[WorkerMessage] = []
        while self._due and self._due[0].time <= self.now():
            due = heapq.heappop(self._due)
            life = self._there.get(due.worker)
            if life is not None and life.life != due.life:
                life = None  # it has been started again since
            if isinstance(due.what, bytes):
                messages += [WorkerMessage(due.worker, due.what)] if life is not None else []
            elif life is None or life.killed or self._is_spared(life):
                self._remaining[due.what] += 1  # another one, another time
            else:
                life.killed = due.what == signal.SIGKILL
                messages += self._strike(due.worker, due.what)
        return messages

    def _strike(self, worker: int, kind: signal.Signals) -> list[WorkerMessage]:
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
        life = self._there.pop(worker, None)
        if life is not None:
            self._ended.update(life.units)

    def _is_spared(self, life: _Worker) -> bool:
        return any(self._ended[unit] >= self.harm.most for unit in life.units)

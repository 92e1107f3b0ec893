"""A test double that injects faults into a fleet: dead and paused workers; late, repeated and corrupted answers.

The faults of an answer depend only on the seed and the numbers of its units, so a unit that is sent again has the same delay.
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
from tests.engine.fleet.network_model import lognormal, other_bytes

FATE_COUNTER, TIME_OF_FAULT_COUNTER, SECONDS_COUNTER, REPEAT_COUNTER = range(4)  # counters of the draws for a message
CHECK_SECONDS = 0.05  # seconds between checks for workers to kill
DEFAULT_SECONDS = 0.5  # assumed seconds per message before the first answer


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultPlan:
    """Which faults are injected into a fleet."""

    mean: float = 0.0  # mean delay of the answer to a unit in seconds, lognormal
    sigma: float = 0.0  # standard deviation of the logarithm of the delay
    kills: int = 0  # total number of workers to kill
    hangs: int = 0  # total number of workers to stop; only processes can be stopped
    chance: float = 0.3  # probability to kill or stop a worker after a message, until the totals are reached
    twice: float = 0.0  # probability that an answer is delivered twice
    rubbish: float = 0.0  # probability that an answer is replaced by other bytes
    most: int = 2  # largest number of workers lost with one unit; a run gives up a unit after five


@dataclass(slots=True)
class FaultCounts:
    killed: int = 0
    stopped: int = 0
    held_back: int = 0
    given_twice: int = 0
    spoilt: int = 0


class _Due(NamedTuple):
    time: float
    order: int
    worker: int
    life: int  # number of the worker's start to which it belongs
    payload: bytes | signal.Signals


@dataclass(slots=True)
class _Worker:
    life: int
    units: tuple[int, ...] = ()
    since: float = 0.0
    killed: bool = False  # killed, but the fleet has not noticed it yet


class FaultyFleet:
    """A fleet with injected faults, which depend on the seed and, for kills, on the time."""

    def __init__(self, fleet: Fleet, seed: int, faults: FaultPlan) -> None:
        if faults.hangs and not hasattr(fleet, "pids"):
            raise ConfigError("Only worker processes can be stopped; leave out --hangs.")
        self.workers, self.has_processes, self.elastic = fleet.workers, fleet.has_processes, fleet.elastic
        self.faults, self.done = faults, FaultCounts()
        self._fleet, self._root = fleet, Stream.from_seed(seed).child("chaos")
        self._order, self._seconds_per_message = itertools.count(), DEFAULT_SECONDS
        self._lock = threading.Lock()  # guards the attributes below
        self._due: list[_Due] = []  # a heap
        self._workers: dict[int, _Worker] = {}
        # number of ended workers by unit; number of messages by worker
        self._ended, self._sent = (
            Counter[int](),
            Counter[int](),
        )
        self._remaining = Counter({signal.SIGKILL: faults.kills, signal.SIGSTOP: faults.hangs})

    def now(self) -> float:
        return self._fleet.now()

    def start(self, worker: int) -> None:
        with self._lock:
            self._workers[worker] = _Worker(next(self._order))
        self._fleet.start(worker)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        with self._lock:
            life = self._workers.get(worker)
            if life is not None:
                life.units, life.since = numbers_of(message), self.now()
                self._plan_fault(worker, life)
        self._fleet.send(worker, message, files)

    def tell(self, message: bytes) -> None:
        self._fleet.tell(message)

    def poll(self, seconds: float) -> list[WorkerMessage]:
        deadline = self.now() + seconds
        while True:
            with self._lock:
                seconds_to_wait = min([deadline, *(due.time for due in self._due[:1])]) - self.now()
                if sum(self._remaining.values()):
                    seconds_to_wait = min(seconds_to_wait, CHECK_SECONDS)
            messages = self._fleet.poll(max(seconds_to_wait, 0.0))
            with self._lock:
                messages_now = [message for arrived in messages for message in self._handle(arrived)] + self._take_due()
            if messages_now or self.now() >= deadline:
                return messages_now

    def end(self, worker: int) -> None:
        with self._lock:
            self._forget_worker(worker)
        self._fleet.end(worker)

    def close(self) -> None:
        with self._lock:
            self._workers.clear()
            self._due.clear()
        self._fleet.close()

    def counts(self) -> dict[str, int]:
        return asdict(self.done)

    def _plan_fault(self, worker: int, worker_life: _Worker) -> None:
        self._sent[worker] += 1
        stream = self._root.child(worker).child(self._sent[worker])
        for signal_number in (signal.SIGKILL, signal.SIGSTOP):
            fault_stream = stream.child(int(signal_number))
            if self._remaining[signal_number] and fault_stream.uniform(FATE_COUNTER) < self.faults.chance:
                self._remaining[signal_number] -= 1
                delay = 2 * self._seconds_per_message * fault_stream.uniform(TIME_OF_FAULT_COUNTER)
                self._schedule(self.now() + delay, worker, worker_life.life, signal_number)
                return

    def _schedule(self, time: float, worker: int, life: int, payload: bytes | signal.Signals) -> None:
        heapq.heappush(self._due, _Due(time, next(self._order), worker, life, payload))

    def _handle(self, answer: WorkerMessage) -> list[WorkerMessage]:
        worker, message = answer
        life = self._workers.get(worker)
        if life is None:
            return []
        if message is None:
            self._forget_worker(worker)
            return [answer]
        if not message.startswith(b'{"units"'):
            return [answer]  # not an answer: the worker is ready, or reports an error
        answered_at, units = self.now(), life.units
        self._seconds_per_message = answered_at - life.since
        stream = self._root.child("answer").child(units[0] if units else 0)
        if stream.uniform(FATE_COUNTER) < self.faults.rubbish and not self._is_spared(life):
            message = other_bytes(message, stream)
            self.done.spoilt += 1
        times = [answered_at + sum(map(self._seconds, units))]
        if stream.uniform(REPEAT_COUNTER) < self.faults.twice:
            times.append(times[0] + 2 * self._seconds_per_message * stream.uniform(TIME_OF_FAULT_COUNTER))
            self.done.given_twice += 1
        self.done.held_back += times[0] > answered_at
        for time in times:
            self._schedule(time, worker, life.life, message)
        return []

    def _seconds(self, unit: int) -> float:
        if not self.faults.mean:
            return 0.0
        stream = self._root.child("unit").child(unit)
        return lognormal(stream, SECONDS_COUNTER, self.faults.mean, self.faults.sigma)

    def _take_due(self) -> list[WorkerMessage]:
        messages: list[WorkerMessage] = []
        while self._due and self._due[0].time <= self.now():
            delivery = heapq.heappop(self._due)
            life = self._workers.get(delivery.worker)
            if life is not None and life.life != delivery.life:
                life = None  # the worker has been started again since
            if isinstance(delivery.payload, bytes):
                messages += [WorkerMessage(delivery.worker, delivery.payload)] if life is not None else []
            elif life is None or life.killed or self._is_spared(life):
                self._remaining[delivery.payload] += 1  # kill or stop another worker later
            else:
                life.killed = delivery.payload == signal.SIGKILL
                messages += self._send_signal(delivery.worker, delivery.payload)
        return messages

    def _send_signal(self, worker: int, signal_number: signal.Signals) -> list[WorkerMessage]:
        pids: Mapping[int, int] | None = getattr(self._fleet, "pids", None)
        if signal_number == signal.SIGSTOP:
            self.done.stopped += 1
        else:
            self.done.killed += 1
        if pids is None:
            self._forget_worker(worker)
            self._fleet.end(worker)
            return [WorkerMessage(worker, None)]
        if worker in pids:
            os.kill(pids[worker], signal_number)  # the fleet has to notice the death itself
        return []

    def _forget_worker(self, worker: int) -> None:
        life = self._workers.pop(worker, None)
        if life is not None:
            self._ended.update(life.units)

    def _is_spared(self, life: _Worker) -> bool:
        return any(self._ended[unit] >= self.faults.most for unit in life.units)

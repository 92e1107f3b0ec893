"""Simulated workers that die, hang and delay by a seed, in simulated time that passes when the run waits.

One worker in this process computes all answers. If workers receive newer weights during play, a task is played when its answer is due.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from sparring.core.files import parse_json
from sparring.core.rng import Stream
from sparring.engine import run_processes as workers
from sparring.engine.workers.fleet.base import WorkerMessage
from sparring.engine.workers.units import WeightsFile, numbers_of, weights_of_message
from sparring.engine.workers.worker import Worker, ready_message, task_answer
from tests.engine.fleet.network_model import MANY_RARE_FAULTS, NetworkModel, lognormal, other_bytes

FATE_COUNTER, DEATH_COUNTER, SECONDS_COUNTER, REPEAT_COUNTER, LATE_COUNTER, IDLE_DEATH_COUNTER, LATER_COUNTER = range(
    7
)  # counters of the draws for a message


def weights_files_of(data):
    return (WeightsFile(*fields) for unit in parse_json(data)["units"] for fields in unit[2])


@dataclass(slots=True)
class _Task:
    message: bytes
    start_time: float
    seconds: float
    replacement: Stream | None  # draws the bytes that replace the answer, if it is replaced
    answer: bytes | None = None

    def time(self, call: int) -> float:
        return self.start_time + self.seconds * call / (call + 1)


class _Event(NamedTuple):
    time: float
    order: int
    worker: int
    life: int  # number of the start of the worker that it belongs to
    message: bytes | _Task | None
    is_late: bool = False  # whether it arrives although the worker has ended


class SimulatedFleet:
    """Workers whose faults depend on a seed, the network model and their messages; ``memo`` caches answers by task."""

    has_processes, elastic = False, False

    def __init__(
        self,
        config: Mapping[str, Any],
        workers: int,
        seed: int,
        *,
        network: NetworkModel = MANY_RARE_FAULTS,
        memo: MutableMapping[bytes, bytes] | None = None,
    ) -> None:
        self.workers, self.network = workers, network
        self._config, self._memo = config, memo
        self._worker: Worker | None = None  # made at the first task
        self._root = Stream.from_seed(seed).child("simulated")
        self._now, self._order = 0.0, itertools.count()
        self._events: list[_Event] = []  # a heap
        self._lives: dict[int, int] = {}  # start numbers of the running workers
        self._draws = Counter[int]()  # number of streams used by each worker
        self._playing: dict[int, tuple[int, ...]] = {}  # units of the running workers
        self._ended = Counter[int]()  # number of workers ended with each unit
        self._news: list[tuple[float, bytes]] = []  # messages of newer weights, and their times
        self._contents: dict[str, bytes] = {}  # contents of the weight files, by SHA-256

    def now(self) -> float:
        return self._now

    def start(self, worker: int) -> None:
        self._lives[worker] = next(self._order)
        stream, network = self._stream(worker), self.network
        if stream.uniform(FATE_COUNTER) >= network.lost:
            self._schedule(worker, lognormal(stream, SECONDS_COUNTER, network.starting, network.sigma), ready_message())

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        if worker not in self._lives:
            return
        stream, network, units = self._stream(worker), self.network, numbers_of(message)
        self._playing[worker] = units
        is_spared = self._is_spared(worker)
        sigma = 0.0 if is_spared else network.sigma
        seconds = len(units) * lognormal(stream, SECONDS_COUNTER, network.mean, sigma)
        fate = "" if is_spared else self._fate(stream)
        if fate == "dies":
            self._schedule(worker, stream.uniform(DEATH_COUNTER) * seconds, None)
        if fate in ("dies", "hangs", "lost"):
            return
        replacement = stream.child("rubbish") if fate == "rubbish" else None
        is_late = stream.uniform(LATE_COUNTER) < network.late and replacement is None
        task = _Task(message, self._now, seconds, replacement)
        if self._news:
            self._read_weights(weights_files_of(message))
        answer = task if self._news else self._answer(task)
        self._schedule(worker, seconds, answer, is_late)
        later_seconds = seconds + lognormal(stream, LATER_COUNTER, network.mean, network.sigma)
        if stream.uniform(REPEAT_COUNTER) < network.twice:
            self._schedule(worker, later_seconds, answer, is_late)
        if stream.uniform(IDLE_DEATH_COUNTER) < network.dies_idle:
            self._schedule(worker, later_seconds, None)

    def tell(self, message: bytes) -> None:
        self._read_weights(weights_of_message(message))
        self._news.append((self._now, message))

    def poll(self, seconds: float) -> list[WorkerMessage]:
        deadline = self._now + seconds
        while self._events and self._events[0].time <= deadline:
            event = heapq.heappop(self._events)
            self._now = max(self._now, event.time)
            is_alive = self._lives.get(event.worker) == event.life
            if not (is_alive or event.is_late):
                continue
            if event.message is None and self._is_spared(event.worker):
                continue
            if event.message is None:
                self.end(event.worker)
            message = event.message
            return [WorkerMessage(event.worker, self._answer(message) if isinstance(message, _Task) else message)]
        self._now = deadline
        return []

    def end(self, worker: int) -> None:
        self._lives.pop(worker, None)
        self._ended.update(self._playing.pop(worker, ()))

    def close(self) -> None:
        self._lives.clear()
        self._events.clear()

    def _stream(self, worker: int) -> Stream:
        self._draws[worker] += 1
        return self._root.child(worker).child(self._draws[worker])

    def _schedule(self, worker: int, seconds: float, message: bytes | _Task | None, is_late: bool = False) -> None:
        time, life = self._now + seconds, self._lives[worker]
        heapq.heappush(self._events, _Event(time, next(self._order), worker, life, message, is_late))

    def _is_spared(self, worker: int) -> bool:
        return any(self._ended[unit] >= self.network.most for unit in self._playing.get(worker, ()))

    def _fate(self, stream: Stream) -> str:
        remaining_probability = stream.uniform(FATE_COUNTER)
        for fate in ("dies", "hangs", "lost", "rubbish"):
            remaining_probability -= getattr(self.network, fate)
            if remaining_probability < 0:
                return fate
        return ""

    def _read_weights(self, weights: Iterable[WeightsFile]) -> None:
        for file in weights:
            if file.digest not in self._contents:
                self._contents[file.digest] = Path(file.file).read_bytes()

    def _answer(self, task: _Task) -> bytes:
        if task.answer is None:
            task.answer = self._compute_answer(task)
            if task.replacement is not None:
                task.answer = other_bytes(task.answer, task.replacement)
        return task.answer

    def _compute_answer(self, task: _Task) -> bytes:
        memo = None if self._news else self._memo
        answer = None if memo is None else memo.get(task.message)
        if answer is None:
            if self._worker is None:  # uses the threads of this process
                self._worker = Worker(self._config, threads=self._config["threads"])
            receive_weights = self._weights_receiver(task, self._worker) if self._news else None
            answer = task_answer(self._worker, task.message, self._contents, receive_weights)
            if memo is not None:
                memo[task.message] = answer
        return answer

    def _weights_receiver(self, task: _Task, worker: Worker) -> Callable[[], None]:
        call_numbers = itertools.count()

        def receive_weights() -> None:
            now = task.time(next(call_numbers))
            messages = [message for time, message in self._news if task.start_time <= time <= now]
            if messages:
                worker.load_newer_weights(messages[-1], self._contents)

        return receive_weights


def simulated_workers(**options):
    original_make_fleet = workers.make_fleet

    def make_fleet(config):
        if config.scale.fleet != "processes":
            return original_make_fleet(config)
        settings = config.model_dump(mode="json")
        return SimulatedFleet(settings, config.scale.count, config.seed, **options)

    return mock.patch.object(workers, "make_fleet", make_fleet)

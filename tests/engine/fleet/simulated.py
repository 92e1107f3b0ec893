"""Workers that die, hang and dawdle as a seed says, in a time that passes when somebody waits.

One worker in this process answers for all of them. Where they hear of newer weights while they play, a task is played when its answer is due.
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
from sparring.engine.workers.units import WeightsFile, news_of, numbers_of
from sparring.engine.workers.worker import Worker, ready_message, task_answer
from tests.engine.fleet.network_model import STORM, NetworkModel, lognormal, rubbish

FATE, WHEN, TIME, AGAIN, LATE, IDLE, LATER = range(7)  # counters of the draws for a message


def weights_of(data):
    return (WeightsFile(*fields) for unit in parse_json(data)["units"] for fields in unit[2])


@dataclass(slots=True)
class _Task:
    message: bytes
    begin: float
    seconds: float
    spoilt: Stream | None  # draws the rubbish that is given in place of the answer, if it is
    answer: bytes | None = None

    def time(self, call: int) -> float:
        return self.begin + self.seconds * call / (call + 1)


class _Event(NamedTuple):
    time: float
    order: int
    worker: int
    life: int  # which of the worker's lives it is from
    message: bytes | _Task | None
    late: bool = False  # whether it is heard although that life is over


class SimulatedFleet:
    """Workers whose fates are a function of a seed, of the weather, and of what they are sent; ``memo`` has answers by what was asked."""

    has_processes, elastic = False, False

    def __init__(
        self,
        config: Mapping[str, Any],
        workers: int,
        seed: int,
        *,
        weather: NetworkModel = STORM,
        memo: MutableMapping[bytes, bytes] | None = None,
    ) -> None:
        self.workers, self.weather = workers, weather
        self._config, self._memo = config, memo
        self._worker: Worker | None = None  # made when it is first asked
        self._root = Stream.from_seed(seed).child("simulated")
        self._now, self._order = 0.0, itertools.count()
        self._events: list[_Event] = []  # a heap
        self._lives: dict[int, int] = {}  # of the workers that are there
        self._draws = Counter[int]()  # streams that each worker has had
        self._playing: dict[int, tuple[int, ...]] = {}  # units of the workers that are there
        self._ended = Counter[int]()  # workers that each unit has ended
        self._news: list[tuple[float, bytes]] = []  # news of weights, and when they came
        self._contents: dict[str, bytes] = {}  # of the files that were told of, by their SHA-256

    def now(self) -> float:
        return self._now

    def start(self, worker: int) -> None:
        self._lives[worker] = next(self._order)
        stream, weather = self._stream(worker), self.weather
        if stream.uniform(FATE) >= weather.lost:
            self._soon(worker, lognormal(stream, TIME, weather.starting, weather.sigma), ready_message())

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        if worker not in self._lives:
            return
        stream, weather, units = self._stream(worker), self.weather, numbers_of(message)
        self._playing[worker] = units
        spared = self._is_spared(worker)
        sigma = 0.0 if spared else weather.sigma
        seconds = len(units) * lognormal(stream, TIME, weather.mean, sigma)
        fate = "" if spared else self._fate(stream)
        if fate == "dies":
            self._soon(worker, stream.uniform(WHEN) * seconds, None)
        if fate in ("dies", "hangs", "lost"):
            return
        spoilt = stream.child("rubbish") if fate == "rubbish" else None
        late = stream.uniform(LATE) < weather.late and spoilt is None
        task = _Task(message, self._now, seconds, spoilt)
        if self._news:
            self._read(weights_of(message))
        answer = task if self._news else self._answer(task)
        self._soon(worker, seconds, answer, late)
        after = seconds + lognormal(stream, LATER, weather.mean, weather.sigma)
        if stream.uniform(AGAIN) < weather.twice:
            self._soon(worker, after, answer, late)
        if stream.uniform(IDLE) < weather.dies_idle:
            self._soon(worker, after, None)

    def tell(self, message: bytes) -> None:
        self._read(news_of(message))
        self._news.append((self._now, message))

    def poll(self, seconds: float) -> list[WorkerMessage]:
        end = self._now + seconds
        while self._events and self._events[0].time <= end:
            event = heapq.heappop(self._events)
            self._now = max(self._now, event.time)
            alive = self._lives.get(event.worker) == event.life
            if not (alive or event.late):
                continue
            if event.message is None and self._is_spared(event.worker):
                continue
            if event.message is None:
                self.end(event.worker)
            message = event.message
            return [WorkerMessage(event.worker, self._answer(message) if isinstance(message, _Task) else message)]
        self._now = end
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

    def _soon(self, worker: int, seconds: float, message: bytes | _Task | None, late: bool = False) -> None:
        time, life = self._now + seconds, self._lives[worker]
        heapq.heappush(self._events, _Event(time, next(self._order), worker, life, message, late))

    def _is_spared(self, worker: int) -> bool:
        return any(self._ended[unit] >= self.weather.most for unit in self._playing.get(worker, ()))

    def _fate(self, stream: Stream) -> str:
        rest = stream.uniform(FATE)
        for fate in ("dies", "hangs", "lost", "rubbish"):
            rest -= getattr(self.weather, fate)
            if rest < 0:
                return fate
        return ""

    def _read(self, weights: Iterable[WeightsFile]) -> None:
        for file in weights:
            if file.digest not in self._contents:
                self._contents[file.digest] = Path(file.file).read_bytes()

    def _answer(self, task: _Task) -> bytes:
        if task.answer is None:
            task.answer = self._played(task)
            if task.spoilt is not None:
                task.answer = rubbish(task.answer, task.spoilt)
        return task.answer

    def _played(self, task: _Task) -> bytes:
        memo = None if self._news else self._memo
        answer = None if memo is None else memo.get(task.message)
        if answer is None:
            if self._worker is None:  # with the threads of this process, as it shares them
                self._worker = Worker(self._config, threads=self._config["threads"])
            hears = self._hearing(task, self._worker) if self._news else None
            answer = task_answer(self._worker, task.message, self._contents, hears)
            if memo is not None:
                memo[task.message] = answer
        return answer

    def _hearing(self, task: _Task, worker: Worker) -> Callable[[], None]:
        calls = itertools.count()

        def hears() -> None:
            now = task.time(next(calls))
            messages = [message for time, message in self._news if task.begin <= time <= now]
            if messages:
                worker.renew(messages[-1], self._contents)

        return hears


def simulated_workers(**options):
    real = workers.fleet_of

    def fleet_of(config):
        if config.scale.fleet != "processes":
            return real(config)
        settings = config.model_dump(mode="json")
        return SimulatedFleet(settings, config.scale.count, config.seed, **options)

    return mock.patch.object(workers, "fleet_of", fleet_of)

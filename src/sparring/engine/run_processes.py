"""Context managers that run the worker and learner processes of a training run."""

from __future__ import annotations

import contextlib
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from sparring.config import RunConfig
from sparring.config.sections import FRESH
from sparring.engine.local import LocalEngine
from sparring.engine.workers.fleet.base import Fleet, WorkerMessage
from sparring.engine.workers.gpu_placement import check_gpus_exist, worker_settings
from sparring.engine.workers.worker import Worker, ready_message


class InlineFleet:
    """One worker in this process.

    Args:
        config: the run's configuration, as values of JSON.
        worker: the worker; None: a new one.
    """

    workers, has_processes, elastic = 1, False, False

    def __init__(self, config: Mapping[str, Any], worker: Worker | None = None) -> None:
        self._worker = worker or Worker(config, threads=config["threads"])
        self._messages: deque[WorkerMessage] = deque()
        self._tasks: deque[tuple[int, bytes]] = deque()

    def now(self) -> float:
        """Return the time in seconds; see ``Fleet``."""
        return monotonic()

    def start(self, worker: int) -> None:
        """Report that the worker is ready; see ``Fleet``."""
        self._messages.append(WorkerMessage(worker, ready_message()))

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Keep a message until ``poll``; see ``Fleet``."""
        self._tasks.append((worker, message))

    def tell(self, message: bytes) -> None:
        """Do nothing, because the worker plays only in ``poll``; see ``Fleet``."""

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return the messages that have arrived, or play the next task; see ``Fleet``.

        Raises:
            SparringError: playing failed.
        """
        if not self._messages and self._tasks:
            worker, message = self._tasks.popleft()
            self._messages.append(WorkerMessage(worker, self._worker.answer(message, {})))
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def end(self, worker: int) -> None:
        """Drop the worker's tasks and messages; see ``Fleet``."""
        self._tasks.clear()
        self._messages.clear()

    def close(self) -> None:
        """Drop all tasks and messages; see ``Fleet``."""
        self.end(0)


WEIGHTS, LEARNERS = "weights", "learners"  # subfolders of a run folder


def make_fleet(config: RunConfig) -> Fleet | None:
    """Return a new fleet for a configuration; None: the engine plays without workers."""
    scale, settings = config.scale, config.model_dump(mode="json")
    if scale.fleet == "here":
        if not scale.lag:
            return None
        return InlineFleet(settings)
    check_gpus_exist(scale.gpus, f"scale.gpus={list(scale.gpus)}")
    if scale.fleet == "ray":
        from sparring.engine.workers.fleet.ray import RayFleet

        return RayFleet(settings)
    from sparring.engine.workers.fleet.processes import ProcessFleet

    settings = worker_settings(settings, 1 if scale.gpus else 0)
    return ProcessFleet(settings, scale.count, carry=scale.weights == "pipe", gpus=scale.gpus)


@contextlib.contextmanager
def run_workers(engine: LocalEngine, folder: Path) -> Iterator[None]:
    """Run the workers that play an engine's episodes, if its configuration has any, as a context.

    Args:
        engine: the run's engine.
        folder: the run folder.
    """
    fleet = make_fleet(engine.config)
    if fleet is None:
        yield
        return
    from sparring.engine.workers.distributed import DistributedRollouts
    from sparring.engine.workers.fresh_episodes import FreshWorkers

    try:
        rollouts_class = FreshWorkers if engine.config.scale.order == FRESH else DistributedRollouts
        engine.workers = rollouts_class(engine, fleet, folder / WEIGHTS)
        yield
    finally:
        fleet.close()
        if engine.workers is not None:
            engine.workers.close()
            engine.workers = None
        # removes the files even if no worker could be started
        shutil.rmtree(folder / WEIGHTS, ignore_errors=True)


@contextlib.contextmanager
def run_ranks(engine: LocalEngine, folder: Path) -> Iterator[None]:
    """Run the further learners of an engine, if its configuration has any, as a context.

    Args:
        engine: the run's engine.
        folder: the run folder.
    """
    if engine.config.learner.ranks == 1:
        shutil.rmtree(folder / LEARNERS, ignore_errors=True)  # files that killed learners have left
        yield
        return
    from sparring.engine.ranks.data_parallel import RankZero
    from sparring.engine.ranks.sharded import ShardedRanks

    ranks_class = ShardedRanks if engine.config.learner.shards else RankZero
    engine.ranks = ranks = ranks_class(engine.config, folder / LEARNERS)
    ranks.serve(engine.policies[name] for name in engine.learners)
    try:
        yield
    finally:
        ranks.end()
        engine.ranks = None

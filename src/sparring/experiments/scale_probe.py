"""What a run's plays and its learner take on this machine: what a plan for many workers is made of.

One worker is made in this process. A few steps are played by it, unit by unit: each is encoded,
played, judged and decoded as in a run on workers. Then as many are played without it.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from sparring.config import RunConfig, resolve
from sparring.engine.distributed import Distributed
from sparring.engine.fleet.base import Heard
from sparring.engine.fleet.here import Here
from sparring.engine.local import LocalEngine
from sparring.engine.units import (
    Answer,
    Unit,
    Weights,
    answer_bytes,
    answer_of,
    known_games,
    task_bytes,
    task_of,
)
from sparring.engine.worker import Worker
from sparring.experiments.scale_file import Probe
from sparring.rollout.play import Rollout
from sparring.run.ahead import Ahead
from sparring.run.methods import Methods
from sparring.run.opened import Opened
from sparring.run.playing import play_step
from sparring.run.state import RunState
from sparring.run.step import play_round
from sparring.run.warmup import warm_up
from sparring.system.memory import resident_bytes

T = TypeVar("T")


@dataclass(slots=True)
class _Seconds:
    """What was measured of each unit, of each step, and of each file of weights."""

    unit: list[float] = field(default_factory=list)
    message: list[float] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    seating: list[float] = field(default_factory=list)
    learner: list[float] = field(default_factory=list)
    play: list[float] = field(default_factory=list)  # of one process, as the next
    round: list[float] = field(default_factory=list)


class _Measured(Here):
    """A worker in this process that is asked for one unit after the other, and timed.

    Args:
        config: of the run.
        worker: that is asked.
        engine: makes its environments.
    """

    def __init__(self, config: RunConfig, worker: Worker, engine: LocalEngine) -> None:
        super().__init__(config.model_dump(mode="json"), worker)
        self._games = known_games([game for game, _ in engine.environments])
        self._weights: tuple[Weights, ...] = ()
        self.seconds, self.grown, self.most = _Seconds(), 0, 0

    def poll(self, seconds: float) -> list[Heard]:
        """Play what was sent, and measure it; see ``Fleet``."""
        if self._heard or not self._wanted:
            return super().poll(seconds)
        worker, message = self._wanted.popleft()
        before, rollouts = resident_bytes(), dict[int, Rollout]()
        for number, unit in task_of(message, self._games).items():
            rollouts |= self._played(number, unit)
        self.grown += resident_bytes() - before
        self.most = max(self.most, self.grown)
        return [Heard(worker, answer_bytes(Answer(rollouts)))]

    def _played(self, number: int, unit: Unit) -> dict[int, Rollout]:
        """Play a unit by itself."""
        own, asked = self.seconds, {number: unit}
        if unit.weights != self._weights:
            self._weights = unit.weights
            own.load.append(_timed(lambda: self._worker.take(unit.weights, {}))[1])
        message, encoding = _timed(lambda: task_bytes(asked))
        answer, playing = _timed(lambda: self._worker.answer(message, {}))
        found, decoding = _timed(lambda: answer_of(answer, asked))
        own.unit.append(playing)
        own.message.append(encoding + decoding)
        own.task.append(len(message))
        own.answer.append(len(answer))
        return dict(found.rollouts)


def probe(
    config: RunConfig, *, steps: int = 3, tell: Callable[[str], None] = lambda line: None
) -> Probe:
    """Measure a run on this machine, for a few steps with one thread.

    Args:
        config: of the run.
        steps: that are measured with a worker, and without; one more is played before them.
        tell: called with a line when something begins.

    Raises:
        SparringError: the run cannot be trained.
    """
    alone = {"unit_games": config.scale.unit_games}
    config = resolve({**config.model_dump(mode="json"), "threads": 1, "scale": alone})
    tell("making the players, and warming up")
    program = resident_bytes()
    worker = Worker(config.model_dump(mode="json"))
    made = resident_bytes() - program
    engine = LocalEngine(config)
    methods = Methods.of(config, [game for game, _ in engine.environments])
    warm_up(config, engine)
    fleet = _Measured(config, worker, engine)
    with tempfile.TemporaryDirectory(prefix="sparring-probe-") as folder:
        state, size = _with_worker(engine, methods, fleet, Path(folder) / "weights", steps, tell)
    _without(engine, methods, state, fleet.seconds, steps, tell)
    return _figures(config, steps, fleet.seconds, size, program + made + fleet.most)


def _with_worker(
    engine: LocalEngine,
    methods: Methods,
    fleet: _Measured,
    folder: Path,
    steps: int,
    tell: Callable[[str], None],
) -> tuple[RunState, int]:
    """Play one step and forget it, and steps that are measured; return the run's state, and the
    bytes of the weights.
    """
    state, size, ahead = RunState(), 0, Ahead(engine.config, engine, methods)
    workers = engine.elsewhere = Distributed(engine, fleet, folder)
    for number in range(steps + 1):
        tell(f"step {number} of {steps} with a worker" if number else "one step to begin with")
        if number == 1:
            fleet.seconds = _Seconds()
        own = fleet.seconds
        own.seating.append(_timed(partial(_seated, engine, methods, state))[1])
        pinned, took = _timed(workers.published.every)
        own.write.append(took)
        outcome = play_round(engine.config, engine, methods, state, ahead=ahead)
        own.learner.append(outcome.timing["seconds/credit"] + outcome.timing["seconds/update"])
        size = sum(Path(one.file).stat().st_size for one in workers.published.files(pinned))
        workers.published.release(pinned)
        state = outcome.state
    workers.close()
    engine.elsewhere = None
    return state, size


def _without(
    engine: LocalEngine,
    methods: Methods,
    state: RunState,
    own: _Seconds,
    steps: int,
    tell: Callable[[str], None],
) -> None:
    """Play steps in one process."""
    ahead = Ahead(engine.config, engine, methods)
    for number in range(1, steps + 1):
        tell(f"step {number} of {steps} without")
        outcome = play_round(engine.config, engine, methods, state, ahead=ahead)
        own.play.append(outcome.timing["seconds/play"])
        own.round.append(outcome.timing["seconds/round"])
        state = outcome.state


def _figures(config: RunConfig, steps: int, own: _Seconds, size: int, memory: int) -> Probe:
    """Return the figures of what was measured."""
    middle = statistics.median
    units = max(round(len(own.unit) / steps), 1)
    unit, seating = statistics.mean(own.unit), middle(own.seating)
    logs = [math.log(max(seconds, 1e-9)) for seconds in own.unit]
    saved = units * unit - max(middle(own.play) - seating, 0.0)
    return Probe(
        recipe=config.name,
        steps=steps,
        plays=config.rollout.games_per_step,
        unit_games=config.scale.unit_games,
        units=units,
        unit=unit,
        log_mean=statistics.mean(logs),
        log_sigma=statistics.pstdev(logs),
        play=units * unit / config.rollout.games_per_step,
        together=min(max(saved / (units - 1), 0.0), unit) if units > 1 else 0.0,
        learner=middle(own.learner),
        seating=seating,
        write=middle(own.write),
        load=middle(own.load),
        message=middle(own.message),
        alone=middle(own.round),
        task_bytes=round(statistics.mean(own.task)),
        answer_bytes=round(statistics.mean(own.answer)),
        weights_bytes=size,
        memory_bytes=memory,
    )


def _seated(engine: LocalEngine, methods: Methods, state: RunState) -> None:
    """Seat the plays of a step, and play none."""
    opened = Opened(step=state.step, learnt=state.step, payoffs=state.payoffs)
    engine.seated(next(play_step(engine.config, engine, methods, opened)).specs)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what some work gives, and its seconds."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began

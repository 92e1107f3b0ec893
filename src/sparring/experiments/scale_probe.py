"""What a run's plays and its learner take on this machine: what a plan for many workers is made of.

One worker is made in this process and asked for the units of a few steps, as in a run: encoded,
played, judged and decoded.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

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
    cut,
    known_games,
    numbers_of,
    task_bytes,
    task_of,
)
from sparring.errors import ConfigError
from sparring.run.ahead import Ahead
from sparring.run.methods import Methods
from sparring.run.playing import Opened, play_step
from sparring.run.state import RunState
from sparring.run.step import play_round
from sparring.run.warmup import warm_up
from sparring.system.files import disk_errors, parse_json, write_bytes_atomic

VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Times and sizes of a run, with one thread.

    Args:
        recipe: the run's name.
        steps: that were measured.
        plays: of a step.
        unit_games: plays of a unit.
        units: of a step.
        unit: seconds that a worker takes for a unit, median.
        units_seconds: of each unit that was measured.
        learner: seconds of the training process for a step, besides its units, median: seating,
            credit, update, writing the weights.
        message: seconds of the training process for a unit: to encode its task and decode its
            answer.
        task_bytes: of a unit's task.
        answer_bytes: of a unit's answer.
        weights_bytes: of the weights that a step is played with.
    """

    recipe: str
    steps: int
    plays: int
    unit_games: int
    units: int
    unit: float
    units_seconds: tuple[float, ...]
    learner: float
    message: float
    task_bytes: int
    answer_bytes: int
    weights_bytes: int

    def save(self, path: Path) -> None:
        """Write it as JSON.

        Raises:
            RunError: the disk is full or not writable.
        """
        data = json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode()
        with disk_errors(path):
            write_bytes_atomic(path, data + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what ``save`` wrote.

        Raises:
            ConfigError: there is no such file, or it is damaged, or of a newer version.
        """
        advice = "make it anew by `sparring scale probe RECIPE`"
        try:
            found = dict(parse_json(path.read_bytes()))
            version = found.pop("version")
            if version != VERSION:
                raise ConfigError(f"{path} is of version {version}, not {VERSION}; {advice}.")
            probe = cls(**{**found, "units_seconds": tuple(map(float, found["units_seconds"]))})
            numbers = [value for name, value in asdict(probe).items() if name not in TEXTS]
            if not all(isinstance(one, int | float) and one >= 0 for one in numbers):
                raise ValueError("a figure is no number from 0 up")
            if not probe.units_seconds or min(probe.units, probe.plays, probe.unit_games) < 1:
                raise ValueError("it holds no unit")
        except ConfigError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} holds no probe ({error!r:.200}); {advice}.") from error
        return probe


TEXTS = ("recipe", "units_seconds")


class _Timed:
    """A fleet whose messages are timed and weighed."""

    def __init__(self, fleet: Here) -> None:
        self.workers, self.apart, self.elastic = fleet.workers, fleet.apart, fleet.elastic
        self._fleet, self._units = fleet, 0
        self.forget()

    def forget(self) -> None:
        """Forget what was measured."""
        self.units: list[float] = []
        self.tasks: list[float] = []
        self.answers: list[float] = []
        self.playing = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Weigh a message; see ``Fleet``."""
        self._units = len(numbers_of(message))
        self.tasks.append(len(message) / self._units)
        self._fleet.send(worker, message, files)

    def poll(self, seconds: float) -> list[Heard]:
        """Time what is played; see ``Fleet``."""
        units, self._units = self._units, 0
        began = time.perf_counter()
        found = self._fleet.poll(seconds)
        if units:
            took = time.perf_counter() - began
            self.playing += took
            self.units += [took / units] * units
            self.answers += [len(one.message or b"") / units for one in found]
        return found


def probe(
    config: RunConfig, *, steps: int = 3, tell: Callable[[str], None] = lambda line: None
) -> Probe:
    """Measure a run on this machine, for a few steps with one thread.

    Args:
        config: of the run.
        steps: that are measured; one more is played before them.
        tell: called with a line when something begins.

    Raises:
        SparringError: the run cannot be trained.
    """
    alone = {"unit_games": config.scale.unit_games}
    config = resolve({**config.model_dump(mode="json"), "threads": 1, "scale": alone})
    tell("making the players, and warming up")
    engine = LocalEngine(config)
    methods = Methods.of(config, [game for game, _ in engine.environments])
    warm_up(config, engine)
    fleet, learner = _Timed(Here(config.model_dump(mode="json"))), list[float]()
    with tempfile.TemporaryDirectory(prefix="sparring-probe-") as folder:
        workers = engine.elsewhere = Distributed(engine, fleet, Path(folder) / "weights")
        state, ahead = RunState(), Ahead(config, engine, methods)
        for number in range(steps + 1):
            tell(f"step {number} of {steps}" if number else "one step to begin with")
            if number == 1:
                fleet.forget()
            before = fleet.playing
            outcome = play_round(config, engine, methods, state, ahead=ahead)
            state = outcome.state
            learner.append(outcome.timing["seconds/round"] - fleet.playing + before)
        measured = list(fleet.units)
        files = workers.published.files(workers.published.every())
        wire, size = _wire(engine, methods, state, files), sum(map(_size, files))
        workers.close()
    units = max(round(len(measured) / steps), 1)
    return Probe(
        recipe=config.name,
        steps=steps,
        plays=config.rollout.games_per_step,
        unit_games=config.scale.unit_games,
        units=units,
        unit=statistics.median(measured),
        units_seconds=tuple(measured),
        learner=max(statistics.median(learner[1:]) - units * wire, 0.0),
        message=wire,
        task_bytes=round(statistics.mean(fleet.tasks)),
        answer_bytes=round(statistics.mean(fleet.answers)),
        weights_bytes=size,
    )


def _wire(engine: LocalEngine, methods: Methods, state: RunState, files: tuple[Any, ...]) -> float:
    """Return the seconds that the training process takes to encode and decode a unit."""
    opened = Opened(step=state.step, learnt=state.step, payoffs=state.payoffs)
    wanted = next(play_step(engine.config, engine, methods, opened))
    parts = cut(engine.seated(wanted.specs), engine.config.scale.unit_games)
    units = {number: Unit(part, files, None) for number, part in enumerate(parts)}
    games = [game for game, _ in engine.environments]
    began = time.process_time()
    message = task_bytes(units)
    encoded = time.process_time() - began
    task = task_of(message, known_games(games))
    assert engine.elsewhere is not None, "the probe's own"
    rollouts = {number: engine.elsewhere.play(unit.specs) for number, unit in task.items()}
    answer = answer_bytes(Answer(rollouts))
    began = time.process_time()
    answer_of(answer, units)
    return (encoded + time.process_time() - began) / len(units)


def _size(one: Weights) -> int:
    """Return the bytes of a file of weights."""
    return Path(one.file).stat().st_size

"""An event simulation of a run on workers: how fast the run is, and what limits its speed.

The simulation drives the scheduler of a run but plays no games: a function gives the seconds of
each unit by its number, and a repeated unit takes as long again. The training process handles one
message at a time while it learns. All random draws derive from a seed. Shared cores, a network and
Python's lock are not simulated.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.rng import Stream
from sparring.engine.workers.episode_budget import Admission, EpisodeBudget
from sparring.engine.workers.unit_scheduler import (
    AbandonRun,
    Command,
    EndWorker,
    SendUnits,
    StartWorker,
    UnitScheduler,
)

SECONDS_PER_HOUR = 3600.0
LIMITING_SHARE = 0.9  # a part that is busy for at least this share of the time limits the run
MAX_RESTARTS = 1_000  # restarts of a worker per hour


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The settings of a simulated run.

    Args:
        workers: number of workers.
        lag: as ``scale.lag``.
        steps: number of steps of the run.
        units: number of units of a step.
        unit: function from the number of a unit to its seconds.
        learner: seconds of credit and update of a step.
        message: seconds that the training process needs to send a unit and to receive its
            result.
        pull: seconds until a worker has new weights, once per worker and version.
        restart: seconds until a started worker is ready.
        deaths: mean number of deaths of a worker per hour.
        seed: seed of the deaths.
        timeout: as ``scale.timeout``; with heavy tails the default ends workers that still play.
    """

    workers: int
    lag: int
    steps: int
    units: int
    unit: Callable[[int], float]
    learner: float
    message: float = 0.0009
    pull: float = 0.02
    restart: float = 12.0
    deaths: float = 0.0
    seed: int = 0
    timeout: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The figures of a simulated run.

    Shares refer to the time after the first ``lag + 1`` steps and before the last step is opened.

    Args:
        seconds: seconds of the whole run.
        step_seconds: seconds of a step.
        busy: share of the workers' time in which they play.
        learner_busy: share of the time in which the learner learns.
        messages_busy: share of the time in which the training process handles messages.
        resent: number of units that were sent again, in the whole run.
        lost: share of the seconds of play that were lost with workers.
    """

    seconds: float
    step_seconds: float
    busy: float
    learner_busy: float
    messages_busy: float
    resent: int
    lost: float

    @property
    def limit(self) -> str:
        """The part that limits the run, as a word; see ``benchmarks/scale.md``."""
        if self.messages_busy >= LIMITING_SHARE:
            return "messages"
        if self.busy >= LIMITING_SHARE:
            return "players"
        return "learner" if self.learner_busy >= LIMITING_SHARE else "tail"


@dataclass(slots=True)
class _Worker:
    """A simulated worker."""

    life: int = 0  # number of restarts; events of former lives are ignored
    version: int = -1  # version of the weights that it has
    since: float = 0.0
    units: tuple[int, ...] = ()


@dataclass(slots=True)
class _Sums:
    """The seconds accumulated up to a time."""

    time: float = 0.0
    played: float = 0.0
    learnt: float = 0.0
    messages: float = 0.0
    lost: float = 0.0


@dataclass(slots=True)
class _Learning:
    """The state of the learner: the next step, and the missing units of each open step."""

    next: int = 0
    opened: int = 0
    busy: bool = False
    units_left: dict[int, int] = field(default_factory=dict)  # missing units of each open step


def simulate(setting: Setting) -> Outcome:
    """Simulate a run and return its results.

    Raises:
        RolloutError: the scheduler gives up.
    """
    return Model(setting).run()


class Model:
    """The state of a run in virtual time."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.now, self._free = setting, 0.0, 0.0
        self.scheduler = UnitScheduler(
            setting.workers, timeout=setting.timeout, restarts=MAX_RESTARTS
        )
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._workers = [_Worker() for _ in range(setting.workers)]
        self._learning, self._sums = _Learning(), _Sums()
        self._marks: list[_Sums] = []  # sums at the end of each step's learning
        self._root = Stream.from_seed(setting.seed).child("deaths")
        self._deaths = itertools.count()

    def run(self) -> Outcome:
        """Process all events until the learner has finished the last step."""
        self._do(self.scheduler.tick(0.0))
        self._open()
        while len(self._marks) < self.setting.steps:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        return self._outcome()

    def _outcome(self) -> Outcome:
        """Return the results for the steady part of the run."""
        setting, marks = self.setting, [_Sums(), *self._marks]
        first = min(setting.lag + 1, setting.steps - 1)
        last = max(setting.steps - setting.lag, first + 1)
        begin, end = marks[first], marks[last]
        time = end.time - begin.time
        return Outcome(
            seconds=marks[-1].time,
            step_seconds=time / (last - first),
            busy=(end.played - begin.played) / (time * setting.workers),
            learner_busy=(end.learnt - begin.learnt) / time,
            messages_busy=(end.messages - begin.messages) / time,
            resent=self.scheduler.counts.resent_units,
            lost=self._sums.lost / max(self._sums.played + self._sums.lost, 1e-9),
        )

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        """Schedule an event at a time."""
        heapq.heappush(self._events, (time, next(self._order), happen))

    def _open(self) -> None:
        """Open all steps that the lag allows, and learn from the next one if it is complete."""
        learning, setting = self._learning, self.setting
        while learning.opened < min(learning.next + setting.lag + 1, setting.steps):
            first = learning.opened * setting.units
            learning.units_left[learning.opened] = setting.units
            learning.opened += 1
            self._do(self.scheduler.issued(range(first, first + setting.units), self.now))
        if not learning.busy and learning.units_left.get(learning.next) == 0:
            learning.busy = True
            self._at(self.now + setting.learner, self._finish_learning)

    def _finish_learning(self) -> None:
        """Record that a step was learned from."""
        learning = self._learning
        learning.busy = False
        del learning.units_left[learning.next]
        learning.next += 1
        self._sums.learnt += self.setting.learner
        sums = self._sums
        playing = sum(max(self.now - worker.since, 0.0) for worker in self._workers if worker.units)
        played, ahead = sums.played + playing, max(self._free - self.now, 0.0)
        self._marks.append(_Sums(self.now, played, sums.learnt, sums.messages - ahead, sums.lost))
        self._open()

    def _do(self, commands: Sequence[Command]) -> None:
        """Execute the scheduler's commands."""
        for command in commands:
            if isinstance(command, SendUnits):
                self._send(command)
            elif isinstance(command, StartWorker):
                self._start(command.worker)
            elif isinstance(command, EndWorker):
                self._die(command.worker, self._workers[command.worker].life)
            else:
                raise error_of_abandoned_run(command)

    def _start(self, worker: int) -> None:
        """Start a worker, and draw when it will die."""
        state, setting = self._workers[worker], self.setting
        ready = self.now if not state.life else self.now + setting.restart
        state.life += 1
        state.version, life = -1, state.life
        self._at(ready, lambda: self._do(self.scheduler.joined(worker, self.now)))
        if setting.deaths:
            chance = self._root.uniform(next(self._deaths))
            lives = -math.log(1.0 - chance) * SECONDS_PER_HOUR / setting.deaths
            self._at(ready + lives, lambda: self._die(worker, life))

    def _send(self, command: SendUnits) -> None:
        """Let a worker play as soon as the training process can send its units."""
        state, setting = self._workers[command.worker], self.setting
        begin = self._message(len(command.units))
        version = self._version_of(command)
        pull = setting.pull if version > state.version else 0.0
        state.version = max(version, state.version)
        state.since, state.units = begin + pull, command.units
        end = state.since + sum(map(setting.unit, command.units))
        life = state.life
        self._at(end, lambda: self._answer(command.worker, life))

    def _version_of(self, command: SendUnits) -> int:
        """Return the version of the weights with which units are sent."""
        return max(max(command.units) // self.setting.units - self.setting.lag, 0)

    def _message(self, units: int) -> float:
        """Return the time at which the training process has handled this number of units."""
        seconds = units * self.setting.message
        self._free = max(self._free, self.now) + seconds
        self._sums.messages += seconds
        return self._free

    def _answer(self, worker: int, life: int) -> None:
        """Receive the result of a worker."""
        state = self._workers[worker]
        if state.life != life or not state.units:
            return
        units, state.units = state.units, ()
        self._sums.played += self.now - state.since
        self._receive_units(units)
        self._do(self.scheduler.answered(worker, units, self.now))
        self._open()

    def _receive_units(self, units: Sequence[int]) -> None:
        """Record received units."""
        for unit in units:
            self._learning.units_left[unit // self.setting.units] -= 1

    def _die(self, worker: int, life: int) -> None:
        """Let a worker die, unless this life has already ended."""
        state = self._workers[worker]
        if state.life != life:
            return
        if state.units:
            self._sums.lost += max(self.now - state.since, 0.0)
        state.units, state.life = (), state.life + 1
        self._do(self.scheduler.lost(worker, self.now))
        wait = self.scheduler.seconds_to_wait(self.now)
        self._at(self.now + wait, lambda: self._do(self.scheduler.tick(self.now)))


def error_of_abandoned_run(command: AbandonRun) -> RolloutError:
    """Return the error of a run that cannot go on."""
    return RolloutError(f"The model of the run cannot go on: {command.why}.")


# -- fresh order -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshOutcome:
    """The results of a simulated run in fresh order.

    Args:
        outcome: the results as in pinned order.
        account: counts of units by what happened to them.
        lag: mean staleness of a unit's weights, in updates, when the learner used it.
        lag_max: largest staleness.
    """

    outcome: Outcome
    account: EpisodeBudget
    lag: float
    lag_max: int


def simulate_fresh(setting: Setting) -> FreshOutcome:
    """Simulate a run in fresh order and return its results.

    Raises:
        RolloutError: the scheduler gives up.
    """
    model = _FreshModel(setting)
    outcome = model.run()
    return FreshOutcome(
        outcome=outcome,
        account=model.admission.budget,
        lag=sum(model.lags) / max(len(model.lags), 1),
        lag_max=max(model.lags, default=0),
    )


class _FreshModel(Model):
    """A simulated run in fresh order; each unit counts as a group of one episode."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.admission = Admission(
            games_per_step=setting.units, lag=setting.lag, steps=setting.steps
        )
        self.lags: list[int] = []
        self._numbers = itertools.count()
        self._versions: dict[int, int] = {}  # version of the weights with which each unit was sent
        self._taken = 0

    def _open(self) -> None:
        """Issue all allowed units, take those that arrived, and learn from a complete step."""
        learning, setting = self._learning, self.setting
        while not learning.busy and learning.next < setting.steps:
            for unit in self.admission.arrived_groups[: setting.units - self._taken]:
                lag = learning.next - self._versions.pop(unit)
                old = lag > setting.lag
                self.admission.take_group(unit, is_too_stale=old)
                self._taken += not old
                self.lags += [] if old else [lag]
            issued = [next(self._numbers) for _ in range(self.admission.num_issuable)]
            for unit in issued:
                self.admission.issue(unit, {unit: 1})
            if self._taken == setting.units:
                learning.busy, learning.units_left[learning.next] = True, 0
                self._at(self.now + setting.learner, self._finish_learning)
            if issued:
                self._do(self.scheduler.issued(issued, self.now))
            if not self.admission.arrived_groups:
                return

    def _finish_learning(self) -> None:
        """Record that a step was learned from."""
        self._taken = 0
        self.admission.begin_step(self._learning.next + 1)
        super()._finish_learning()

    def _version_of(self, command: SendUnits) -> int:
        """Return the version of the weights that units are sent with: the newest."""
        for unit in command.units:
            if unit in self._versions:  # a lost unit is sent again
                self.admission.reissue(unit)
            self._versions[unit] = self._learning.next
        return self._learning.next

    def _receive_units(self, units: Sequence[int]) -> None:
        """Record received units."""
        for unit in units:
            self.admission.record_arrival(unit, {unit: 1})


# -- the runs of the page --------------------------------------------------------------------------


def lognormal_units(seed: int, mean: float, sigma: float, plays: int = 1) -> Callable[[int], float]:
    """Return the seconds of units by number.

    Args:
        seed: seed of the draws.
        mean: mean seconds of one episode, from a lognormal distribution.
        sigma: standard deviation of the logarithm of these seconds.
        plays: episodes of a unit, played in parallel: a unit takes as long as its longest episode.
    """
    root = Stream.from_seed(seed).child("units")
    scale = mean * math.exp(-(sigma**2) / 2)

    def seconds(unit: int) -> float:
        draws: Any = root.child(unit).generator().standard_normal(plays)
        return scale * math.exp(sigma * float(draws.max()))

    return seconds


def thousand_workers(
    workers: int = 1000, lags: Sequence[int] = (0, 1, 2, 4), steps: int = 12, seeds: int = 5
) -> list[dict[str, Any]]:
    """Return the rows of a results file: a run with many workers, by lag, with values by seed.

    A step has 32 episodes per worker, in units of 4 parallel episodes. An episode takes 2 seconds
    (lognormal with sigma 0.8), the learner 16 seconds per step. A worker dies once an hour.
    """
    per_worker, plays = 8, 4
    rows: dict[int, dict[str, Any]] = {}
    for seed in range(seeds):
        unit = cache(lognormal_units(seed, 2.0, 0.8, plays))
        for lag in lags:
            outcome = simulate(
                Setting(
                    workers=workers,
                    lag=lag,
                    steps=steps,
                    units=workers * per_worker,
                    unit=unit,
                    learner=16.0,
                    deaths=1.0,
                    seed=seed,
                )
            )
            figures = {
                "seconds": outcome.step_seconds,
                "plays/s": workers * per_worker * plays / outcome.step_seconds,
                "share in play": outcome.busy,
                "share learning": outcome.learner_busy,
                "share in messages": outcome.messages_busy,
                "lost share": outcome.lost,
            }
            labels = {"workers": str(workers), "lag": str(lag), "starts": "all", "limit": ""}
            row = rows.setdefault(lag, labels)
            row["limit"] = outcome.limit
            for name, value in figures.items():
                row.setdefault("values", {}).setdefault(name, {})[str(seed)] = value
    return list(rows.values())


def held_back_seconds(
    *, workers: int, lag: int, steps: int, units: int, unit: Callable[[int], float], learner: float
) -> float:
    """Return the seconds of a whole run whose workers are ready at the start.

    Args:
        workers: as in ``Setting``, as are all arguments.
        lag: as above.
        steps: as above.
        units: as above.
        unit: as above.
        learner: as above.
    """
    setting = Setting(
        workers=workers, lag=lag, steps=steps, units=units, unit=unit, learner=learner, pull=0.0
    )
    return simulate(setting).seconds

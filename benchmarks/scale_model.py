"""A model of a run on workers, in virtual time: how fast it is, and what limits it.

The model drives the scheduler of a run and plays nothing: a unit takes the seconds that a law gives
for its number, also when it is played again. The training process answers one message at a time,
and learns beside that. Everything drawn derives from a seed. Not modelled are cores that workers
share, a network, and Python's lock.
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

HOUR = 3600.0
BUSY = 0.9  # share of its time from which on somebody counts as what limits
RESTARTS = 1_000  # of a worker in an hour


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The settings of a simulated run.

    Args:
        workers: how many there are.
        lag: as ``scale.lag``.
        steps: of the run.
        units: of a step.
        unit: gives the seconds of a unit by its number.
        learner: seconds of credit and update of a step.
        message: seconds that the training process needs for a unit, to send it and to take its
            answer.
        pull: seconds until a worker has new weights, once per worker and version.
        restart: seconds until a worker that is started is ready.
        deaths: of a worker in an hour, mean.
        seed: of the deaths.
        timeout: as ``scale.timeout``; where tails are heavy the usual one ends workers that play.
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

    Shares are of the time after the first ``lag + 1`` steps, and until nothing more is opened.

    Args:
        seconds: of the whole run.
        step_seconds: of a step.
        busy: share of the workers' time in play.
        learner_busy: share of its time in which the learner learns.
        messages_busy: share of its time in which the training process answers messages.
        resent: units that were played again, in the whole run.
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
        """What limits the run, in a word: see ``benchmarks/scale.md``."""
        if self.messages_busy >= BUSY:
            return "messages"
        if self.busy >= BUSY:
            return "players"
        return "learner" if self.learner_busy >= BUSY else "tail"


@dataclass(slots=True)
class _Worker:
    """A worker of the model."""

    life: int = 0  # events of former lives are ignored
    version: int = -1  # of the weights that it has
    since: float = 0.0
    units: tuple[int, ...] = ()


@dataclass(slots=True)
class _Sums:
    """Return the accumulated seconds at a time."""

    time: float = 0.0
    played: float = 0.0
    learnt: float = 0.0
    messages: float = 0.0
    lost: float = 0.0


@dataclass(slots=True)
class _Learning:
    """What the learner does: the step that comes next, and what is left of each that is open."""

    next: int = 0
    opened: int = 0
    busy: bool = False
    units_left: dict[int, int] = field(default_factory=dict)  # units of each open step


def simulate(setting: Setting) -> Outcome:
    """Simulate a run and return its figures.

    Raises:
        RolloutError: the scheduler gives up.
    """
    return Model(setting).run()


class Model:
    """The state of a run in virtual time."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.now, self._free = setting, 0.0, 0.0
        self.scheduler = UnitScheduler(setting.workers, timeout=setting.timeout, restarts=RESTARTS)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._workers = [_Worker() for _ in range(setting.workers)]
        self._learning, self._sums = _Learning(), _Sums()
        self._marks: list[_Sums] = []  # at the end of each step's learning
        self._root = Stream.from_seed(setting.seed).child("deaths")
        self._deaths = itertools.count()

    def run(self) -> Outcome:
        """Go through all events until the last step is learnt from."""
        self._do(self.scheduler.tick(0.0))
        self._open()
        while len(self._marks) < self.setting.steps:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        return self._outcome()

    def _outcome(self) -> Outcome:
        """Return the figures of the steady part."""
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
        """Open steps as far as the lag says, and learn from the next one if it is there."""
        learning, setting = self._learning, self.setting
        while learning.opened < min(learning.next + setting.lag + 1, setting.steps):
            first = learning.opened * setting.units
            learning.units_left[learning.opened] = setting.units
            learning.opened += 1
            self._do(self.scheduler.issued(range(first, first + setting.units), self.now))
        if not learning.busy and learning.units_left.get(learning.next) == 0:
            learning.busy = True
            self._at(self.now + setting.learner, self._learnt)

    def _learnt(self) -> None:
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
                raise _given_up(command)

    def _start(self, worker: int) -> None:
        """Start a worker, and draw when it will die."""
        state, setting = self._workers[worker], self.setting
        ready = self.now if not state.life else self.now + setting.restart
        state.life += 1
        state.version, life = -1, state.life
        self._at(ready, lambda: self._do(self.scheduler.joined(worker, self.now)))
        if setting.deaths:
            chance = self._root.uniform(next(self._deaths))
            lives = -math.log(1.0 - chance) * HOUR / setting.deaths
            self._at(ready + lives, lambda: self._die(worker, life))

    def _send(self, command: SendUnits) -> None:
        """Let a worker play, as soon as the training process comes to send it units."""
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
        """Return the version of the weights that units are sent with."""
        return max(max(command.units) // self.setting.units - self.setting.lag, 0)

    def _message(self, units: int) -> float:
        """Return when the training process has dealt with so many units."""
        seconds = units * self.setting.message
        self._free = max(self._free, self.now) + seconds
        self._sums.messages += seconds
        return self._free

    def _answer(self, worker: int, life: int) -> None:
        """Take a worker's answer."""
        state = self._workers[worker]
        if state.life != life or not state.units:
            return
        units, state.units = state.units, ()
        self._sums.played += self.now - state.since
        self._came(units)
        self._do(self.scheduler.answered(worker, units, self.now))
        self._open()

    def _came(self, units: Sequence[int]) -> None:
        """Record received units."""
        for unit in units:
            self._learning.units_left[unit // self.setting.units] -= 1

    def _die(self, worker: int, life: int) -> None:
        """Let a worker die, unless it has done so."""
        state = self._workers[worker]
        if state.life != life:
            return
        if state.units:
            self._sums.lost += max(self.now - state.since, 0.0)
        state.units, state.life = (), state.life + 1
        self._do(self.scheduler.lost(worker, self.now))
        wait = self.scheduler.wait(self.now)
        self._at(self.now + wait, lambda: self._do(self.scheduler.tick(self.now)))


def _given_up(command: AbandonRun) -> RolloutError:
    """Return the error of a run that cannot go on."""
    return RolloutError(f"The model of the run cannot go on: {command.why}.")


# -- fresh order -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshOutcome:
    """The figures of a simulated run in fresh order.

    Args:
        outcome: as in pinned order.
        account: what became of its units.
        lag: updates that the weights of a unit were behind when it was learnt from, mean.
        lag_max: the same, the most.
    """

    outcome: Outcome
    account: EpisodeBudget
    lag: float
    lag_max: int


def simulate_fresh(setting: Setting) -> FreshOutcome:
    """Simulate a run in fresh order and return its figures.

    Raises:
        RolloutError: the scheduler gives up.
    """
    model = _FreshModel(setting)
    outcome = model.run()
    return FreshOutcome(
        outcome=outcome,
        account=model.admission.account,
        lag=sum(model.lags) / max(len(model.lags), 1),
        lag_max=max(model.lags, default=0),
    )


class _FreshModel(Model):
    """A run in virtual time whose units are groups of one play, for the account."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.admission = Admission(games=setting.units, lag=setting.lag, steps=setting.steps)
        self.lags: list[int] = []
        self._numbers = itertools.count()
        self._versions: dict[int, int] = {}  # of the weights that each unit was sent with
        self._taken = 0

    def _open(self) -> None:
        """Issue units as far as there is room; take those that came, and learn from a step."""
        learning, setting = self._learning, self.setting
        while not learning.busy and learning.next < setting.steps:
            for unit in self.admission.arrived_groups[: setting.units - self._taken]:
                lag = learning.next - self._versions.pop(unit)
                old = lag > setting.lag
                self.admission.take(unit, too_stale=old)
                self._taken += not old
                self.lags += [] if old else [lag]
            issued = [next(self._numbers) for _ in range(self.admission.num_issuable)]
            for unit in issued:
                self.admission.issue(unit, {unit: 1})
            if self._taken == setting.units:
                learning.busy, learning.units_left[learning.next] = True, 0
                self._at(self.now + setting.learner, self._learnt)
            if issued:
                self._do(self.scheduler.issued(issued, self.now))
            if not self.admission.arrived_groups:
                return

    def _learnt(self) -> None:
        """Record that a step was learned from."""
        self._taken = 0
        self.admission.begin(self._learning.next + 1)
        super()._learnt()

    def _version_of(self, command: SendUnits) -> int:
        """Return the version of the weights that units are sent with: the newest."""
        for unit in command.units:
            if unit in self._versions:  # it was lost
                self.admission.reissue(unit)
            self._versions[unit] = self._learning.next
        return self._learning.next

    def _came(self, units: Sequence[int]) -> None:
        """Record received units."""
        for unit in units:
            self.admission.answer(unit, {unit: 1})


# -- the runs of the page --------------------------------------------------------------------------


def lognormal_units(seed: int, mean: float, sigma: float, plays: int = 1) -> Callable[[int], float]:
    """Return the seconds of units by number.

    Args:
        seed: of the draws.
        mean: seconds of one play, from a lognormal law.
        sigma: standard deviation of their logarithm.
        plays: of a unit, side by side: it takes as long as the longest of them.
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
    """Return rows of a results file: a run with many workers, by lag, with the values by seed.

    A step has 32 plays per worker, in units of 4 side by side. A play takes 2 seconds, lognormal
    with sigma 0.8, and the learner 16 seconds a step. A worker dies once an hour.
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
    """Return the seconds of a whole run on workers that are ready.

    Args:
        workers: as in ``Setting``, like all others.
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

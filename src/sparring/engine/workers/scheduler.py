"""Who plays which unit: the decisions, without a clock and without anything that touches the world.

Events go in, commands come out. Whoever drives it (worker processes, a cluster, a simulation) tells
it the time with every event, and does what the commands say. A unit is a number; what it stands for
is none of its business.

Timing, in timing.jsonl:
    worker/N/playing        share of the time since the step before in which worker N played; of the
                            first 16 workers, from the second step on
    worker/N/ready          share of it in which it was there: it played, or waited for plays
    worker/N/lost           how often it was lost in it; only where it was
"""

from __future__ import annotations

import heapq
import math
import statistics
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Send:
    """Have a worker play these units, in one message."""

    worker: int
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """Start a worker."""

    worker: int


@dataclass(frozen=True, slots=True)
class End:
    """End a worker that is late; it counts as lost."""

    worker: int
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing more can be done; ``unit`` is the one that cannot be played, if it is one."""

    why: str
    unit: int | None = None


Command = Send | Start | End | GiveUp


@dataclass(slots=True)
class Counts:
    """What went wrong and was handled."""

    lost_workers: int = 0
    resent_units: int = 0
    timed_out_units: int = 0
    duplicate_units: int = 0


LEAST = 60.0  # seconds that a message may always take
TIMES = 20.0  # the median of the units so far, that one may take
MESSAGE = 1.0  # seconds of play that a message may hold, about, if units are shorter
REMEMBERED = 256  # units of which the median is taken


class TimeoutRule:
    """The limit of a message, from what units have taken so far.

    Args:
        timeout: seconds that a unit may take; None: 20 times the median of those so far, and a
            message 60 at least. Until the first answer a unit counts as one of 60 seconds.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout, self._median = timeout, LEAST
        self._took: deque[float] = deque(maxlen=REMEMBERED)  # seconds of a unit

    def took(self, seconds: float, units: int) -> None:
        """Take note that a message of so many units was answered after so many seconds."""
        self._took.extend([seconds / units] * min(units, REMEMBERED))
        self._median = statistics.median(self._took)

    @property
    def most(self) -> int:
        """The units that one message may hold: so many that none waits long behind others."""
        return max(int(MESSAGE / max(self._median, 1e-6)), 1) if self._took else sys.maxsize

    def allowed(self, units: int) -> float:
        """Return the seconds that a message of so many units may take."""
        if self._timeout is not None:
            return units * self._timeout
        return max(LEAST, units * TIMES * self._median)


LANES = 16  # workers of which figures are recorded, so that a line stays short


class WorkerUtilisation(NamedTuple):
    """What a worker has done so far.

    Attributes:
        playing: seconds in which it played.
        ready: seconds in which it was there.
        lost: how often it was lost.
    """

    playing: float
    ready: float
    lost: int


class Utilisation:
    """The figures of the first workers, from one asking to the next."""

    def __init__(self) -> None:
        self._before: Sequence[WorkerUtilisation] = ()
        self._clock = 0.0

    def since(self, lanes: Sequence[WorkerUtilisation], now: float) -> dict[str, float]:
        """Return the figures listed above; none at the first asking.

        Args:
            lanes: of all workers.
            now: the time, seconds.
        """
        before, seconds = self._before, now - self._clock
        self._before, self._clock = lanes[:LANES], now
        found: dict[str, float] = {}
        for number, (old, new) in enumerate(zip(before, self._before, strict=False)):
            if seconds > 0:
                found[f"worker/{number}/playing"] = (new.playing - old.playing) / seconds
                found[f"worker/{number}/ready"] = (new.ready - old.ready) / seconds
            if new.lost > old.lost:
                found[f"worker/{number}/lost"] = float(new.lost - old.lost)
        return found


SHARE = 2  # messages per worker in which what waits of an issue is sent


class UnitQueue:
    """Units that are open: issued and not answered; those that nobody plays wait.

    They are sent in the order of their numbers, several in one message as long as many wait and
    they are short: each worker gets its part of half of them. A message holds units of one issue,
    so that none waits
    for the answer to units that are wanted later. A unit that has ended a worker is sent alone.
    """

    def __init__(self) -> None:
        self._issues = 0
        self._open: dict[int, int] = {}  # the issue of each unit that is open
        self._free: Counter[int] = Counter()  # how many wait of each issue
        self._waits: set[int] = set()
        self._heap: list[int] = []  # those that wait, and some that were answered
        self._ended: dict[int, int] = {}  # workers that a unit has ended

    def __bool__(self) -> bool:
        """Whether any unit waits."""
        return bool(self._waits)

    def issue(self, units: Iterable[int]) -> None:
        """Take units that are wanted together."""
        self._issues += 1
        for unit in units:
            self._open[unit] = self._issues
            self.again(unit)

    def again(self, unit: int) -> bool:
        """Let a unit wait, if it is open; return whether it is."""
        issue = self._open.get(unit)
        if issue is not None and unit not in self._waits:
            self._waits.add(unit)
            self._free[issue] += 1
            heapq.heappush(self._heap, unit)
        return issue is not None

    def ended(self, unit: int) -> int:
        """Take note that an open unit has ended a worker; return how many it has."""
        found = self._ended[unit] = self._ended.get(unit, 0) + 1
        return found

    def answered(self, unit: int) -> bool:
        """Take note that a unit is answered; return whether it was open."""
        if unit not in self._open:
            return False
        if unit in self._waits:
            self._taken(unit)
        self._ended.pop(unit, None)
        del self._open[unit]
        return True

    def message(self, workers: int, most: int) -> tuple[int, ...]:
        """Return the units that a worker is to be sent; they no longer wait.

        Args:
            workers: how many share what waits.
            most: of them in one message.
        """
        first = self._first()
        part = min(-(-self._free[self._open[first]] // (SHARE * workers)), most)
        self._taken(first)
        found = [heapq.heappop(self._heap)]
        while len(found) < part and first not in self._ended:
            unit = self._first()
            if unit in self._ended or self._open[unit] != self._open[first]:
                break
            self._taken(unit)
            found.append(heapq.heappop(self._heap))
        return tuple(found)

    def _first(self) -> int:
        while self._heap[0] not in self._waits:
            heapq.heappop(self._heap)
        return self._heap[0]

    def _taken(self, unit: int) -> None:
        self._waits.remove(unit)
        issue = self._open[unit]
        self._free[issue] -= 1
        if not self._free[issue]:
            del self._free[issue]


HOUR = 3600.0
TRIES = 5  # workers that a unit may end before it is given up: 3 of 1,000 may die by chance
FIRST, LONGEST = 0.5, 30.0  # seconds until a lost worker is started again: at first, at most
STARTING = 600.0  # seconds until a worker that is started must have joined
FORMER = 4  # looks per worker that are no longer meant, which are kept at most
LOOK = 1.0  # seconds until a worker that is not late is looked at again, at least; at most, LEAST


@dataclass(slots=True)
class _Worker:
    ready: bool = False
    playing: tuple[int, ...] = ()
    since: float = 0.0  # when it was started, or was sent what it plays
    busy: float = 0.0  # seconds that it has played, without what it plays now
    came: float = 0.0  # when it became ready
    spent: float = 0.0  # seconds that it was ready, without those since it came
    losses: int = 0  # how often it was lost
    failures: int = 0  # since it last answered
    lost: deque[float] = field(default_factory=deque)  # when it was lost, in the last hour
    starts: float | None = None  # when it is to be started
    gone: bool = False  # it was lost too often
    look: float = math.inf  # when it is to be looked at
    listed: bool = False  # among those that are idle

    @property
    def there(self) -> bool:
        return self.starts is None and not self.gone

    @property
    def starting(self) -> bool:
        return self.there and not self.ready


class Scheduler:
    """Which worker plays which unit, what is played again, and when a worker is started again.

    Events, each a method:

        issued      units are to be played
        joined      a worker is ready
        answered    a worker has answered a unit
        lost        a worker is gone, or has answered what cannot be read
        returned    a worker could not begin with what it was sent
        tick        time has passed

    Units are sent in the order of their numbers, in messages as ``UnitQueue`` says. An event costs
    time that grows with the logarithm of the number of workers and units.

    Args:
        workers: how many there are to be, numbered from 0.
        timeout: seconds that a unit may take; None: see ``TimeoutRule``.
        restarts: how often a worker may be started again in an hour.
        elastic: whether a worker may take its time to come, as it waits for a machine. If not, one
            that has not come in ``STARTING`` seconds is lost.
    """

    def __init__(
        self,
        workers: int,
        *,
        timeout: float | None = None,
        restarts: int = 10,
        elastic: bool = False,
    ) -> None:
        self.counts = Counts()
        self._elastic, self._alone = elastic, 0.0  # since when nobody plays what waits
        self._patience, self._restarts = TimeoutRule(timeout), restarts
        self._workers = [_Worker(starts=0.0) for _ in range(workers)]
        self._waiting = UnitQueue()
        self._idle: list[int] = []  # a heap of workers, some of them no longer idle
        self._looks: list[tuple[float, int]] = []  # a heap of ``look``, and of former ones
        self._ready = self._gone = 0  # how many are there, and were lost for good
        for number in range(workers):
            self._look(number, -math.inf)

    @property
    def workers(self) -> int:
        """How many workers there are to be."""
        return len(self._workers)

    @property
    def ready(self) -> int:
        """How many workers are there."""
        return self._ready

    def busy(self, now: float) -> float:
        """Return the seconds that workers have played, over all of them."""
        return sum(lane.playing for lane in self.lanes(now))

    def lanes(self, now: float) -> list[WorkerUtilisation]:
        """Return what each worker has done so far."""
        return [
            WorkerUtilisation(
                own.busy + (now - own.since) * bool(own.playing),
                own.spent + (now - own.came) * own.ready,
                own.losses,
            )
            for own in self._workers
        ]

    def playing(self, worker: int) -> tuple[int, ...]:
        """Return the units that a worker plays."""
        return self._workers[worker].playing

    def issued(self, units: Iterable[int], now: float) -> list[Command]:
        """Take units that are to be played; their numbers say in which order.

        None is sent in one message with units of another issue.
        """
        if not self._waiting:
            self._alone = now
        self._waiting.issue(units)
        return self.tick(now)

    def joined(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker is ready; one that is not being started is none."""
        own = self._workers[worker]
        if own.starting:
            own.ready, own.came = True, now
            self._ready += 1
            self._rest(worker)
        return self.tick(now)

    def answered(self, worker: int, units: Iterable[int], now: float) -> list[Command]:
        """Take note that a worker has answered all it was sent; second answers change nothing."""
        own, units = self._workers[worker], tuple(units)
        if units and own.playing == units:
            seconds = now - own.since
            own.busy += seconds
            self._patience.took(seconds, len(units))
            own.failures = 0
            self._rest(worker)
        self.counts.duplicate_units += sum(not self._waiting.answered(unit) for unit in units)
        return self.tick(now)

    def lost(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker is gone: what it played is played by others."""
        own = self._workers[worker]
        if not own.there:
            return self.tick(now)
        self.counts.lost_workers += 1
        self._alone = now if own.ready else self._alone
        ended = 0
        for unit in own.playing:
            if self._waiting.again(unit):
                ended = self._waiting.ended(unit)
                self.counts.resent_units += 1
        alone = own.playing[0] if len(own.playing) == 1 else None
        own.busy += (now - own.since) * bool(own.playing)
        own.spent += (now - own.came) * own.ready
        own.losses += 1
        self._ready -= own.ready
        own.ready, own.playing = False, ()
        own.lost.append(now)
        while own.lost[0] < now - HOUR:
            own.lost.popleft()
        own.failures += 1
        if len(own.lost) > self._restarts:
            own.gone = True
            self._gone += 1
        else:
            own.starts = now + min(FIRST * 2.0 ** min(own.failures - 1, 9), LONGEST)
            self._look(worker, now)
        if alone is not None and ended >= TRIES:
            return [GiveUp(f"it has ended {ended} workers", alone)]
        return self.tick(now)

    def returned(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker could not begin: what it was sent waits again."""
        playing = self._workers[worker].playing
        for unit in playing:
            self._waiting.again(unit)
        if playing:
            self._rest(worker)
        return self.tick(now)

    def tick(self, now: float) -> list[Command]:
        """Take note of the time: workers are started, those that are late ended, idle ones given
        what waits.
        """
        hopeless = self._hopeless(now)
        if hopeless:
            return [GiveUp(hopeless)]
        commands: list[Command] = []
        while self._looks and self._looks[0][0] <= now:
            time, number = heapq.heappop(self._looks)
            own = self._workers[number]
            if time != own.look:
                continue
            own.look = math.inf
            if own.starts is not None and own.starts <= now:
                own.starts, own.since = None, now
                commands.append(Start(number))
            elif self._due(own) <= now:
                commands.append(End(number, self._late(number, own)))
            self._look(number, now)
        return commands + self._sent(now)

    def wait(self, now: float) -> float:
        """Return the seconds after which a tick may have something to do."""
        look = self._looks[0][0] if self._looks else now + LEAST
        if self._elastic and self._waiting and not self._ready:
            look = min(look, self._alone + STARTING)
        return max(look - now, 0.0)

    def _look(self, worker: int, now: float) -> None:
        """Look at a worker when it is due, and at one that plays before, as its limit may fall."""
        own = self._workers[worker]
        due = self._due(own)
        time = min(due if due > now else now + LOOK, now + LEAST if own.playing else math.inf)
        if time < own.look:
            own.look = time
            heapq.heappush(self._looks, (time, worker))
        if len(self._looks) > (1 + FORMER) * self.workers:
            meant = ((one.look, number) for number, one in enumerate(self._workers))
            self._looks = [look for look in meant if look[0] < math.inf]
            heapq.heapify(self._looks)

    def _rest(self, worker: int) -> None:
        own = self._workers[worker]
        own.playing = ()
        if not own.listed:
            own.listed = True
            heapq.heappush(self._idle, worker)

    def _hopeless(self, now: float) -> str:
        """Say why nobody will play; empty where somebody may."""
        if self._gone == len(self._workers):
            return (
                f"every worker was lost more than {self._restarts} times in an hour "
                "(scale.restarts)"
            )
        waits = self._elastic and self._waiting and not self._ready
        if waits and self._alone + STARTING <= now:
            return f"no worker has come in {STARTING:g} seconds"
        return ""

    def _due(self, own: _Worker) -> float:
        if own.starts is not None:
            return own.starts
        if own.playing:
            return own.since + self._patience.allowed(len(own.playing))
        return own.since + STARTING if own.starting and not self._elastic else math.inf

    def _late(self, number: int, own: _Worker) -> str:
        """Say what a worker is late with; count it."""
        if not own.playing:
            return f"worker {number} has not come up in {STARTING:g} seconds"
        self.counts.timed_out_units += len(own.playing)
        return (
            f"worker {number} has not answered {len(own.playing)} units in "
            f"{self._patience.allowed(len(own.playing)):.4g} seconds (scale.timeout)"
        )

    def _sent(self, now: float) -> list[Command]:
        found: list[Command] = []
        while self._waiting and self._idle:
            number = heapq.heappop(self._idle)
            own = self._workers[number]
            own.listed = False
            if not own.ready:
                continue  # it was lost since
            own.playing = self._waiting.message(self.workers - self._gone, self._patience.most)
            own.since = now
            self._look(number, now)
            found.append(Send(number, own.playing))
        return found

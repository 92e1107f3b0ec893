"""Who plays which unit: the decisions, without a clock and without anything that touches the world.

Events go in, commands come out. Whoever drives it (worker processes, a cluster, a simulation) tells
it the time with every event, and does what the commands say. A unit is a number; what it stands for
is none of its business.

    issued      units are to be played
    joined      a worker is ready
    answered    a worker has answered a unit
    lost        a worker is gone, or has answered what cannot be read
    returned    a worker could not begin with what it was sent
    tick        time has passed
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sparring.engine.commands import Command, Counts, End, GiveUp, Send, Start

HOUR = 3600.0
LEAST = 60.0  # seconds that a unit may always take
TIMES = 20.0  # the median of the units so far, that one may take
TRIES = 3  # workers that a unit may end before it is given up
SHARE = 2  # messages per worker in which what waits is sent
FIRST, LONGEST = 0.5, 30.0  # seconds until a lost worker is started again: at first, at most
REMEMBERED = 256  # units of which the median is taken
STARTING = 600.0  # seconds until a worker that is started must have joined
LOOK = 1.0  # seconds until a worker that is not late is looked at again, at least


@dataclass(slots=True)
class _Worker:
    """What is known of one worker."""

    ready: bool = False
    playing: tuple[int, ...] = ()
    since: float = 0.0  # when it was started, or was sent what it plays
    busy: float = 0.0  # seconds that it has played, without what it plays now
    failures: int = 0  # since it last answered
    lost: deque[float] = field(default_factory=deque)  # when it was lost, in the last hour
    starts: float | None = None  # when it is to be started
    gone: bool = False  # it was lost too often
    look: float | None = None  # when it is to be looked at


class Scheduler:
    """Which worker plays which unit, what is played again, and when a worker is started again.

    Units are sent in the order in which they were issued, several in one message as long as many
    wait: each worker gets its part of half of them. A unit that has ended a worker is sent alone.
    An event costs time that grows with the logarithm of the number of workers and units.

    Args:
        workers: how many there are to be, numbered from 0.
        timeout: seconds that a unit may take; None: 20 times the median of those so far, and 60 at
            least.
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
        self._elastic, self._alone = elastic, 0.0  # since when there is no worker
        self._timeout, self._restarts = timeout, restarts
        self._workers = [_Worker(starts=0.0) for _ in range(workers)]
        self._open: set[int] = set()  # issued and not answered
        self._free: set[int] = set()  # those of them that nobody plays
        self._waiting: list[int] = []  # a heap of these, and of some that were answered
        self._idle: list[int] = []  # a heap of workers, some of them no longer idle
        self._looks: list[tuple[float, int]] = []  # a heap of ``look``, and of former ones
        self._ready = self._gone = 0  # how many are there, and were lost for good
        self._ended: defaultdict[int, int] = defaultdict(int)  # workers that a unit has ended
        self._took: deque[float] = deque(maxlen=REMEMBERED)  # seconds of a unit
        self._limit = timeout or LEAST * TIMES
        for number in range(workers):
            self._look(number, 0.0)

    @property
    def workers(self) -> int:
        """How many workers there are to be."""
        return len(self._workers)

    @property
    def ready(self) -> int:
        """How many workers are there."""
        return self._ready

    @property
    def limit(self) -> float:
        """Seconds that a unit may take now."""
        return self._limit

    def busy(self, now: float) -> float:
        """Return the seconds that workers have played, over all of them."""
        return sum(own.busy + (now - own.since) * bool(own.playing) for own in self._workers)

    def playing(self, worker: int) -> tuple[int, ...]:
        """Return the units that a worker plays."""
        return self._workers[worker].playing

    def issued(self, units: Iterable[int], now: float) -> list[Command]:
        """Take units that are to be played; their numbers say in which order."""
        for unit in units:
            self._open.add(unit)
            self._again(unit)
        return self.tick(now)

    def joined(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker is ready."""
        own = self._workers[worker]
        if not own.ready:
            own.ready = True
            self._ready += 1
            heapq.heappush(self._idle, worker)
        return self.tick(now)

    def answered(self, worker: int, units: Iterable[int], now: float) -> list[Command]:
        """Take note that a worker has answered all that it was sent.

        What somebody else has answered before is counted, and changes nothing.
        """
        own, units = self._workers[worker], tuple(units)
        if own.playing == units:
            seconds = now - own.since
            own.busy += seconds
            self._took.extend([seconds / len(units)] * len(units))
            if self._timeout is None:
                self._limit = max(LEAST, TIMES * statistics.median(self._took))
            own.failures = 0
            self._rest(worker)
        for unit in units:
            if unit in self._open:
                self._open.remove(unit)
                if unit in self._free:
                    self._free.remove(unit)
            else:
                self.counts.duplicate_units += 1
        return self.tick(now)

    def lost(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker is gone: what it played is played by others."""
        own = self._workers[worker]
        self.counts.lost_workers += 1
        for unit in own.playing:
            if unit in self._open:
                self._ended[unit] += 1
                self.counts.resent_units += 1
                self._again(unit)
        alone = own.playing[0] if len(own.playing) == 1 else None
        own.busy += (now - own.since) * bool(own.playing)
        self._ready -= own.ready
        own.ready, own.playing = False, ()
        if alone is not None and self._ended[alone] >= TRIES:
            return [GiveUp(f"it has ended {self._ended[alone]} workers", alone)]
        own.lost.append(now)
        while own.lost[0] < now - HOUR:
            own.lost.popleft()
        own.failures += 1
        if len(own.lost) > self._restarts:
            own.gone = True
            self._gone += 1
        else:
            own.starts = now + min(FIRST * 2 ** (own.failures - 1), LONGEST)
            self._look(worker, own.starts)
        return self.tick(now)

    def returned(self, worker: int, now: float) -> list[Command]:
        """Take note that a worker could not begin: what it was sent waits again."""
        for unit in self._workers[worker].playing:
            if unit in self._open:
                self._again(unit)
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
            own.look = None
            if own.starts is not None and own.starts <= now:
                own.starts, own.since = None, now
                self._look(number, self._due(own))
                commands.append(Start(number))
            elif self._may_be_late(own):
                if self._due(own) < now:
                    commands.append(End(number, self._late(number, own)))
                else:
                    self._look(number, max(self._due(own), now + LOOK))
        return commands + self._sent(now)

    def wait(self, now: float) -> float:
        """Return the seconds after which a tick may have something to do."""
        return max(self._looks[0][0] - now, 0.0) if self._looks else LEAST

    def _look(self, worker: int, time: float) -> None:
        """Look at a worker at a time, or before."""
        own = self._workers[worker]
        if own.look is None or time < own.look:
            own.look = time
            heapq.heappush(self._looks, (time, worker))

    def _again(self, unit: int) -> None:
        """Let a unit wait."""
        if unit not in self._free:
            self._free.add(unit)
            heapq.heappush(self._waiting, unit)

    def _rest(self, worker: int) -> None:
        """Let a worker be idle."""
        self._workers[worker].playing = ()
        heapq.heappush(self._idle, worker)

    def _hopeless(self, now: float) -> str:
        """Say why nobody will play; empty where somebody may."""
        if self._gone == len(self._workers):
            return (
                f"every worker was lost more than {self._restarts} times in an hour "
                "(scale.restarts)"
            )
        if not self._elastic or not self._free or self._ready:
            self._alone = now
        elif now - self._alone > STARTING:
            return f"no worker has come in {STARTING:g} seconds"
        return ""

    def _due(self, own: _Worker) -> float:
        """Return when a worker that plays or starts is late."""
        if own.playing:
            return own.since + len(own.playing) * self._limit
        return own.since + (math.inf if self._elastic else STARTING)

    @staticmethod
    def _may_be_late(own: _Worker) -> bool:
        """Return whether a worker has something to be late with."""
        return own.starts is None and not own.gone and (bool(own.playing) or not own.ready)

    def _late(self, number: int, own: _Worker) -> str:
        """Say what a worker is late with; count it."""
        if not own.playing:
            return f"worker {number} has not come up in {STARTING:g} seconds"
        self.counts.timed_out_units += len(own.playing)
        return (
            f"worker {number} has not answered {len(own.playing)} units in "
            f"{len(own.playing) * self._limit:.0f} seconds (scale.timeout)"
        )

    def _sent(self, now: float) -> list[Command]:
        """Give what waits to the workers that are idle."""
        found: list[Command] = []
        while self._free and self._idle:
            number = heapq.heappop(self._idle)
            own = self._workers[number]
            if not own.ready or own.playing:
                continue  # it was idle before
            part = -(-len(self._free) // (SHARE * (self.workers - self._gone)))
            units = [self._pop()]
            while len(units) < part and not self._ended.get(units[0]) and self._free:
                unit = self._pop()
                if self._ended.get(unit):
                    self._again(unit)
                    break
                units.append(unit)
            own.playing, own.since = tuple(units), now
            self._look(number, self._due(own))
            found.append(Send(number, own.playing))
        return found

    def _pop(self) -> int:
        """Return the first unit that waits; it does so no longer."""
        while (unit := heapq.heappop(self._waiting)) not in self._free:
            pass
        self._free.remove(unit)
        return unit

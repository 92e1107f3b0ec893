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
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sparring.engine.commands import Command, Counts, End, GiveUp, Send, Start
from sparring.engine.lanes import Lane
from sparring.engine.patience import LEAST, Patience
from sparring.engine.waiting import Waiting

HOUR = 3600.0
TRIES = 5  # workers that a unit may end before it is given up: 3 of 1,000 may die by chance
FIRST, LONGEST = 0.5, 30.0  # seconds until a lost worker is started again: at first, at most
STARTING = 600.0  # seconds until a worker that is started must have joined
FORMER = 4  # looks per worker that are no longer meant, which are kept at most
LOOK = 1.0  # seconds until a worker that is not late is looked at again, at least; at most, LEAST


@dataclass(slots=True)
class _Worker:
    """What is known of one worker."""

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
        """Whether it was started, and not lost since."""
        return self.starts is None and not self.gone

    @property
    def starting(self) -> bool:
        """Whether it was started and is not ready yet."""
        return self.there and not self.ready


class Scheduler:
    """Which worker plays which unit, what is played again, and when a worker is started again.

    Units are sent in the order of their numbers, in messages as ``Waiting`` says. An event costs
    time that grows with the logarithm of the number of workers and units.

    Args:
        workers: how many there are to be, numbered from 0.
        timeout: seconds that a unit may take; None: see ``Patience``.
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
        self._patience, self._restarts = Patience(timeout), restarts
        self._workers = [_Worker(starts=0.0) for _ in range(workers)]
        self._waiting = Waiting()
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

    def lanes(self, now: float) -> list[Lane]:
        """Return what each worker has done so far."""
        return [
            Lane(
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
        """Take note that a worker has answered all that it was sent.

        What somebody else has answered before is counted, and changes nothing.
        """
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
        """Take note that a worker is gone: what it played is played by others.

        One that is gone already is not lost again.
        """
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
        """Let a worker be idle."""
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
        """Return when a worker is to be started, or is late."""
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
        """Give what waits to the workers that are idle."""
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

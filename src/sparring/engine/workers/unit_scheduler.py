"""The scheduler of units over workers: a state machine without a clock, input or output.

Methods take events and return commands. The caller (worker processes, a cluster, a simulation)
passes the time with every event and carries out the commands. In this module a unit is a number.

Timing, in timing.jsonl:
    worker/N/playing        share of the time since the previous step in which worker N played; only
                            the first 16 workers, from the second step on
    worker/N/ready          share of this time in which worker N was ready: it played or was idle
    worker/N/lost           number of losses of worker N in this time; only if there are any
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
class SendUnits:
    """A command to send these units to a worker in one message."""

    worker: int
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartWorker:
    """A command to start a worker."""

    worker: int


@dataclass(frozen=True, slots=True)
class EndWorker:
    """A command to end a worker that timed out, which then counts as lost."""

    worker: int
    why: str


@dataclass(frozen=True, slots=True)
class AbandonRun:
    """A command to end the run with an error; ``unit`` names the failing unit, if any."""

    why: str
    unit: int | None = None


Command = SendUnits | StartWorker | EndWorker | AbandonRun


@dataclass(slots=True)
class FailureCounts:
    """Counts of failures from which the run recovered."""

    lost_workers: int = 0
    resent_units: int = 0
    timed_out_units: int = 0
    duplicate_units: int = 0


MIN_TIMEOUT = 60.0  # smallest timeout of a message in seconds
TIMEOUT_MEDIANS = 20.0  # timeout of a unit in multiples of the median unit's time
MESSAGE_SECONDS = 1.0  # approximate seconds of play in a message, if units are shorter
MEDIAN_UNITS = 256  # number of latest units over which the median is taken


class TimeoutRule:
    """The timeout of a message, from the time that recent units took.

    Args:
        timeout: seconds per unit. None: 20 times the median of recent units, and at least 60
            seconds per message; until the first answer the median is taken as 60 seconds.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout, self._median = timeout, MIN_TIMEOUT
        self._seconds: deque[float] = deque(maxlen=MEDIAN_UNITS)  # seconds of each recent unit

    def record(self, seconds: float, units: int) -> None:
        """Record the seconds after which a message of this many units was answered."""
        self._seconds.extend([seconds / units] * min(units, MEDIAN_UNITS))
        self._median = statistics.median(self._seconds)

    @property
    def max_units(self) -> int:
        """The largest number of units in one message, so that no unit waits long behind others."""
        if not self._seconds:
            return sys.maxsize
        return max(int(MESSAGE_SECONDS / max(self._median, 1e-6)), 1)

    def seconds_for(self, units: int) -> float:
        """Return the timeout in seconds of a message of this many units."""
        if self._timeout is not None:
            return units * self._timeout
        return max(MIN_TIMEOUT, units * TIMEOUT_MEDIANS * self._median)


RECORDED_WORKERS = 16  # number of workers in timing.jsonl; more would make its lines long


class WorkerUtilisation(NamedTuple):
    """The times of one worker since the start of the run.

    Attributes:
        playing_seconds: seconds in which it played.
        ready_seconds: seconds in which it played or was idle.
        num_losses: number of times that it was lost.
    """

    playing_seconds: float
    ready_seconds: float
    num_losses: int


class UtilisationMeter:
    """Computes the utilisation of the first workers between two calls."""

    def __init__(self) -> None:
        self._previous: Sequence[WorkerUtilisation] = ()
        self._clock = 0.0

    def since_last_call(self, workers: Sequence[WorkerUtilisation], now: float) -> dict[str, float]:
        """Return the figures at the top of this file since the last call; {} at the first call.

        Args:
            workers: the totals of all workers.
            now: the time in seconds.
        """
        previous, seconds = self._previous, now - self._clock
        self._previous, self._clock = workers[:RECORDED_WORKERS], now
        figures: dict[str, float] = {}
        for worker, (earlier, totals) in enumerate(zip(previous, self._previous, strict=False)):
            if seconds > 0:
                play_seconds = totals.playing_seconds - earlier.playing_seconds
                ready_seconds = totals.ready_seconds - earlier.ready_seconds
                figures[f"worker/{worker}/playing"] = play_seconds / seconds
                figures[f"worker/{worker}/ready"] = ready_seconds / seconds
            if totals.num_losses > earlier.num_losses:
                figures[f"worker/{worker}/lost"] = float(totals.num_losses - earlier.num_losses)
        return figures


MESSAGES_PER_WORKER = 2  # number of messages per worker over which unsent units are spread


class UnitQueue:
    """The open units, which were issued and are not answered yet.

    Unsent units are sent in the order of their numbers. While many short units are unsent, a
    message holds several: the next messages to all workers hold about half of them. All units of a
    message were issued together. A unit that has ended a worker is sent alone.
    """

    def __init__(self) -> None:
        self._num_issues = 0
        self._issue_of: dict[int, int] = {}  # open unit -> number of its call of ``issue``
        self._num_unsent: Counter[int] = Counter()  # by number of the call of ``issue``
        self._unsent: set[int] = set()
        self._heap: list[int] = []  # a heap of the unsent units and some answered ones
        self._num_ended: dict[int, int] = {}  # unit -> number of workers that it has ended

    def __bool__(self) -> bool:
        """Return whether any unit is unsent."""
        return bool(self._unsent)

    def issue(self, units: Iterable[int]) -> None:
        """Add units that belong together."""
        self._num_issues += 1
        for unit in units:
            self._issue_of[unit] = self._num_issues
            self.requeue(unit)

    def requeue(self, unit: int) -> bool:
        """Mark an open unit as unsent, and return whether the unit is open."""
        issue = self._issue_of.get(unit)
        if issue is not None and unit not in self._unsent:
            self._unsent.add(unit)
            self._num_unsent[issue] += 1
            heapq.heappush(self._heap, unit)
        return issue is not None

    def count_ended_worker(self, unit: int) -> int:
        """Record that an open unit has ended a worker, and return how many it has ended."""
        num_workers = self._num_ended[unit] = self._num_ended.get(unit, 0) + 1
        return num_workers

    def remove_answered(self, unit: int) -> bool:
        """Remove an answered unit, and return whether it was open."""
        if unit not in self._issue_of:
            return False
        if unit in self._unsent:
            self._dequeue(unit)
        self._num_ended.pop(unit, None)
        del self._issue_of[unit]
        return True

    def pop_message(self, workers: int, limit: int) -> tuple[int, ...]:
        """Remove the units of the next message from the unsent ones, and return them.

        Args:
            workers: number of workers that share the unsent units.
            limit: the largest number of units in the message.
        """
        first_unit = self._first_unsent()
        num_unsent = self._num_unsent[self._issue_of[first_unit]]
        num_units = min(-(-num_unsent // (MESSAGES_PER_WORKER * workers)), limit)
        self._dequeue(first_unit)
        units = [heapq.heappop(self._heap)]
        while len(units) < num_units and first_unit not in self._num_ended:
            unit = self._first_unsent()
            if unit in self._num_ended or self._issue_of[unit] != self._issue_of[first_unit]:
                break
            self._dequeue(unit)
            units.append(heapq.heappop(self._heap))
        return tuple(units)

    def _first_unsent(self) -> int:
        while self._heap[0] not in self._unsent:
            heapq.heappop(self._heap)
        return self._heap[0]

    def _dequeue(self, unit: int) -> None:
        self._unsent.remove(unit)
        issue = self._issue_of[unit]
        self._num_unsent[issue] -= 1
        if not self._num_unsent[issue]:
            del self._num_unsent[issue]


HOUR_SECONDS = 3600.0
MAX_ENDED = 5  # number of ended workers per unit that ends the run; 3 may end by chance
FIRST_DELAY, MAX_DELAY = 0.5, 30.0  # seconds before a lost worker is restarted
START_TIMEOUT = 600.0  # start-up timeout of a worker in seconds
STALE_CHECKS = 4  # stale heap entries per worker from which on the heap is rebuilt
MIN_CHECK = 1.0  # fewest seconds between two checks of a worker; MIN_TIMEOUT is the most


@dataclass(slots=True)
class _WorkerState:
    is_ready: bool = False
    playing: tuple[int, ...] = ()
    waiting_since: float = 0.0  # time of its start, or of the message that it plays
    busy_seconds: float = 0.0  # seconds of play, without the current message
    ready_since: float = 0.0
    ready_seconds: float = 0.0  # seconds in which it was ready, before ``ready_since``
    num_losses: int = 0
    num_failures: int = 0  # losses since its last answer
    loss_times: deque[float] = field(default_factory=deque)  # times of losses in the last hour
    start_at: float | None = None  # time of its next start, if one is planned
    is_given_up: bool = False  # lost too often
    check_at: float = math.inf  # time of its next check
    is_listed: bool = False  # in the heap of idle workers

    @property
    def is_present(self) -> bool:
        return self.start_at is None and not self.is_given_up

    @property
    def is_starting(self) -> bool:
        return self.is_present and not self.is_ready


class UnitScheduler:
    """Decides which worker plays which unit, and when units and workers are started again.

    Events, each a method:

        issued      new units
        joined      a worker is ready
        answered    a worker has answered its units
        lost        a worker has ended, or its answer cannot be read
        returned    a worker could not start on its units
        tick        time has passed

    Units are sent in the order of their numbers, in the messages of ``UnitQueue``. The time of an
    event grows with the logarithm of the number of workers and units.

    Args:
        num_workers: number of workers, which are numbered from 0.
        timeout: seconds per unit; None: see ``TimeoutRule``.
        restarts: largest number of restarts of a worker in an hour.
        elastic: whether a worker may wait for a machine without limit. If not, it is lost when it
            is not ready after ``START_TIMEOUT`` seconds.
    """

    def __init__(
        self,
        num_workers: int,
        *,
        timeout: float | None = None,
        restarts: int = 10,
        elastic: bool = False,
    ) -> None:
        self.counts = FailureCounts()
        self._elastic, self._unplayed_since = elastic, 0.0  # time since which no worker plays
        self._timeout_rule, self._restarts = TimeoutRule(timeout), restarts
        self._workers = [_WorkerState(start_at=0.0) for _ in range(num_workers)]
        self._queue = UnitQueue()
        self._idle: list[int] = []  # a heap of workers; some are no longer idle
        self._checks: list[tuple[float, int]] = []  # a heap of (check_at, worker); some are stale
        self._num_ready = self._num_given_up = 0  # numbers of workers
        for worker in range(num_workers):
            self._schedule_check(worker, -math.inf)

    @property
    def num_workers(self) -> int:
        """The number of workers, ready or not."""
        return len(self._workers)

    @property
    def num_ready(self) -> int:
        """The number of workers that are ready."""
        return self._num_ready

    def busy_seconds(self, now: float) -> float:
        """Return the seconds of play, summed over all workers."""
        return sum(worker.playing_seconds for worker in self.utilisation(now))

    def utilisation(self, now: float) -> list[WorkerUtilisation]:
        """Return the totals of each worker."""
        return [
            WorkerUtilisation(
                worker.busy_seconds + (now - worker.waiting_since) * bool(worker.playing),
                worker.ready_seconds + (now - worker.ready_since) * worker.is_ready,
                worker.num_losses,
            )
            for worker in self._workers
        ]

    def playing_units(self, worker: int) -> tuple[int, ...]:
        """Return the units that a worker plays now."""
        return self._workers[worker].playing

    def issued(self, units: Iterable[int], now: float) -> list[Command]:
        """Add units, which are played in the order of their numbers.

        A message holds only units of one call.
        """
        if not self._queue:
            self._unplayed_since = now
        self._queue.issue(units)
        return self.tick(now)

    def joined(self, worker: int, now: float) -> list[Command]:
        """Record that a worker is ready, if it was starting."""
        state = self._workers[worker]
        if state.is_starting:
            state.is_ready, state.ready_since = True, now
            self._num_ready += 1
            self._mark_idle(worker)
        return self.tick(now)

    def answered(self, worker: int, units: Iterable[int], now: float) -> list[Command]:
        """Record that a worker has answered its units; a second answer counts as a duplicate."""
        state, units = self._workers[worker], tuple(units)
        if units and state.playing == units:
            seconds = now - state.waiting_since
            state.busy_seconds += seconds
            self._timeout_rule.record(seconds, len(units))
            state.num_failures = 0
            self._mark_idle(worker)
        self.counts.duplicate_units += sum(not self._queue.remove_answered(unit) for unit in units)
        return self.tick(now)

    def lost(self, worker: int, now: float) -> list[Command]:
        """Mark a worker as lost, and put its units back into the queue."""
        state = self._workers[worker]
        if not state.is_present:
            return self.tick(now)
        self.counts.lost_workers += 1
        self._unplayed_since = now if state.is_ready else self._unplayed_since
        num_ended = 0
        for unit in state.playing:
            if self._queue.requeue(unit):
                num_ended = self._queue.count_ended_worker(unit)
                self.counts.resent_units += 1
        only_unit = state.playing[0] if len(state.playing) == 1 else None
        state.busy_seconds += (now - state.waiting_since) * bool(state.playing)
        state.ready_seconds += (now - state.ready_since) * state.is_ready
        state.num_losses += 1
        self._num_ready -= state.is_ready
        state.is_ready, state.playing = False, ()
        state.loss_times.append(now)
        while state.loss_times[0] < now - HOUR_SECONDS:
            state.loss_times.popleft()
        state.num_failures += 1
        if len(state.loss_times) > self._restarts:
            state.is_given_up = True
            self._num_given_up += 1
        else:
            delay = FIRST_DELAY * 2.0 ** min(state.num_failures - 1, 9)
            state.start_at = now + min(delay, MAX_DELAY)
            self._schedule_check(worker, now)
        if only_unit is not None and num_ended >= MAX_ENDED:
            return [AbandonRun(f"it has ended {num_ended} workers", only_unit)]
        return self.tick(now)

    def returned(self, worker: int, now: float) -> list[Command]:
        """Put the units of a worker that could not start on them back into the queue."""
        playing = self._workers[worker].playing
        for unit in playing:
            self._queue.requeue(unit)
        if playing:
            self._mark_idle(worker)
        return self.tick(now)

    def tick(self, now: float) -> list[Command]:
        """Start workers that are due, end those that timed out, and send units to idle ones."""
        reason = self._reason_to_abandon(now)
        if reason:
            return [AbandonRun(reason)]
        commands: list[Command] = []
        while self._checks and self._checks[0][0] <= now:
            check_at, worker = heapq.heappop(self._checks)
            state = self._workers[worker]
            if check_at != state.check_at:
                continue
            state.check_at = math.inf
            if state.start_at is not None and state.start_at <= now:
                state.start_at, state.waiting_since = None, now
                commands.append(StartWorker(worker))
            elif self._deadline(state) <= now:
                commands.append(EndWorker(worker, self._timeout_reason(worker, state)))
            self._schedule_check(worker, now)
        return commands + self._send_unsent(now)

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until a tick may have a command."""
        check_at = self._checks[0][0] if self._checks else now + MIN_TIMEOUT
        if self._elastic and self._queue and not self._num_ready:
            check_at = min(check_at, self._unplayed_since + START_TIMEOUT)
        return max(check_at - now, 0.0)

    def _schedule_check(self, worker: int, now: float) -> None:
        """Schedule a worker's next check: soon if it plays, because timeouts may become shorter."""
        state = self._workers[worker]
        deadline = self._deadline(state)
        check_at = min(
            deadline if deadline > now else now + MIN_CHECK,
            now + MIN_TIMEOUT if state.playing else math.inf,
        )
        if check_at < state.check_at:
            state.check_at = check_at
            heapq.heappush(self._checks, (check_at, worker))
        if len(self._checks) > (1 + STALE_CHECKS) * self.num_workers:
            next_checks = (
                (other_state.check_at, index) for index, other_state in enumerate(self._workers)
            )
            self._checks = [check for check in next_checks if check[0] < math.inf]
            heapq.heapify(self._checks)

    def _mark_idle(self, worker: int) -> None:
        state = self._workers[worker]
        state.playing = ()
        if not state.is_listed:
            state.is_listed = True
            heapq.heappush(self._idle, worker)

    def _reason_to_abandon(self, now: float) -> str:
        """Return why no worker will ever play, or "" if a worker may."""
        if self._num_given_up == len(self._workers):
            return (
                f"every worker was lost more than {self._restarts} times in an hour "
                "(scale.restarts)"
            )
        is_waiting = self._elastic and self._queue and not self._num_ready
        if is_waiting and self._unplayed_since + START_TIMEOUT <= now:
            return f"no worker was ready within {START_TIMEOUT:g} seconds"
        return ""

    def _deadline(self, state: _WorkerState) -> float:
        if state.start_at is not None:
            return state.start_at
        if state.playing:
            return state.waiting_since + self._timeout_rule.seconds_for(len(state.playing))
        can_time_out = state.is_starting and not self._elastic
        return state.waiting_since + START_TIMEOUT if can_time_out else math.inf

    def _timeout_reason(self, worker: int, state: _WorkerState) -> str:
        if not state.playing:
            return f"worker {worker} was not ready within {START_TIMEOUT:g} seconds"
        self.counts.timed_out_units += len(state.playing)
        return (
            f"worker {worker} has not answered {len(state.playing)} units in "
            f"{self._timeout_rule.seconds_for(len(state.playing)):.4g} seconds (scale.timeout)"
        )

    def _send_unsent(self, now: float) -> list[Command]:
        commands: list[Command] = []
        while self._queue and self._idle:
            worker = heapq.heappop(self._idle)
            state = self._workers[worker]
            state.is_listed = False
            if not state.is_ready:
                continue  # the worker was lost after it became idle
            state.playing = self._queue.pop_message(
                self.num_workers - self._num_given_up, self._timeout_rule.max_units
            )
            state.waiting_since = now
            self._schedule_check(worker, now)
            commands.append(SendUnits(worker, state.playing))
        return commands

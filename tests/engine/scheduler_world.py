"""A simulated fleet for tests of the scheduler: it carries out the commands and checks the invariants."""

import math

from sparring.engine.workers.unit_scheduler import (
    HOUR_SECONDS,
    MESSAGES_PER_WORKER,
    START_TIMEOUT,
    AbandonRun,
    EndWorker,
    SendUnits,
    StartWorker,
    UnitScheduler,
)

NOT_RUNNING, STARTED, READY = "off", "started", "ready"


class World:
    def __init__(self, workers, **options):
        self.options = {"timeout": None, "restarts": 10, "elastic": False, **options}
        self.scheduler = UnitScheduler(workers, **options)
        self.now = 0.0
        self.workers = dict.fromkeys(range(workers), NOT_RUNNING)
        self.tasks = {}  # worker -> units that it plays
        self.sent = []  # all messages ever sent, as (worker, units)
        self.issued, self.issue_of = [], {}
        self.learnt = []  # units in the order of their first answers
        self.open = set()  # units without an answer
        self.ended = {}  # unit -> number of workers lost with it
        self.losses = {number: [] for number in range(workers)}
        self.given_up = set()  # workers with too many losses
        self.resent = 0
        self.over = None  # the command that ended the run, if any
        self.log, self.depth = [], 0
        self.do(self.scheduler.tick(self.now))

    # -- events

    def issue(self, count):
        units = range(len(self.issued), len(self.issued) + count)
        self.issued += units
        self.open |= set(units)
        self.issue_of |= dict.fromkeys(units, units.start)
        self.do(self.scheduler.issued(units, self.now))

    def join(self, worker):
        if self.workers[worker] == STARTED:
            self.workers[worker] = READY
        self.do(self.scheduler.joined(worker, self.now))

    def answer(self, worker, units=None):
        if units is None:
            units = self.tasks[worker]
        if units and self.tasks.get(worker) == units:
            del self.tasks[worker]
        duplicates_before = self.scheduler.counts.duplicate_units
        answered_before = [unit for unit in units if unit not in self.open]
        self.learnt += [unit for unit in units if unit in self.open]
        for unit in units:
            self.open.discard(unit)
            self.ended.pop(unit, None)
        self.do(self.scheduler.answered(worker, units, self.now))
        assert self.scheduler.counts.duplicate_units == duplicates_before + len(answered_before)

    def lose(self, worker):
        self._gone(worker)
        self.do(self.scheduler.lost(worker, self.now))

    def give_back(self, worker):
        self.tasks.pop(worker, None)
        self.do(self.scheduler.returned(worker, self.now))

    def pass_time(self, seconds=None):
        self.now += self.scheduler.seconds_to_wait(self.now) if seconds is None else seconds
        self.do(self.scheduler.tick(self.now))

    def _gone(self, worker):
        if self.workers[worker] == NOT_RUNNING:
            return
        self.workers[worker] = NOT_RUNNING
        loss_times = self.losses[worker]
        loss_times.append(self.now)
        if sum(time >= self.now - HOUR_SECONDS for time in loss_times) > self.options["restarts"]:
            self.given_up.add(worker)
        for unit in self.tasks.pop(worker, ()):
            if unit in self.open:
                self.resent += 1
                self.ended[unit] = self.ended.get(unit, 0) + 1

    # -- commands of the scheduler

    def do(self, commands):
        self.depth += 1
        for command in sorted(commands, key=lambda command: isinstance(command, EndWorker)):
            self.log.append((self.now, command))
            if isinstance(command, StartWorker):
                assert self.workers[command.worker] == NOT_RUNNING
                self.workers[command.worker] = STARTED
            elif isinstance(command, SendUnits):
                self._sent(command)
            elif isinstance(command, EndWorker):
                assert self.workers[command.worker] != NOT_RUNNING
                self._gone(command.worker)
                self.do(self.scheduler.lost(command.worker, self.now))
            else:
                self._given_up(command)
                self.over = command
            if self.over is not None:
                break
        self.depth -= 1
        if self.over is None and not self.depth:
            self.check()

    def _sent(self, command):
        worker, units = command.worker, command.units
        assert self.workers[worker] == READY
        assert worker not in self.tasks
        waiting = self.waiting
        assert units[0] == min(waiting)  # the oldest first
        assert set(units) <= waiting
        assert len({self.issue_of[unit] for unit in units}) == 1
        waiting_of_issue = sorted(unit for unit in waiting if self.issue_of[unit] == self.issue_of[units[0]])
        if units[0] in self.ended:
            assert len(units) == 1
        assert not len(units) > 1 or not self.ended.keys() & set(units)
        assert list(units) == waiting_of_issue[: len(units)]
        assert len(units) <= math.ceil(
            len(waiting_of_issue) / (MESSAGES_PER_WORKER * max(len(self.workers) - len(self.given_up), 1))
        )
        self.tasks[worker] = units
        self.sent.append((worker, units))

    def _given_up(self, command):
        assert isinstance(command, AbandonRun)
        if command.unit is not None:
            assert self.ended[command.unit] >= 5
            assert (command.unit,) in [units for _, units in self.sent]
        elif "scale.restarts" in command.why:
            assert len(self.given_up) == len(self.workers)
        else:
            assert self.options["elastic"]
            assert READY not in self.workers.values()
            assert self.now >= START_TIMEOUT

    # -- invariants

    @property
    def waiting(self):
        return self.open - {unit for units in self.tasks.values() for unit in units}

    def check(self):
        scheduler = self.scheduler
        for worker, state in self.workers.items():
            assert scheduler.playing_units(worker) == self.tasks.get(worker, ())
            if state == READY and worker not in self.tasks:
                assert not self.waiting
        assert scheduler.num_ready == sum(state == READY for state in self.workers.values())
        assert scheduler.counts.lost_workers == sum(map(len, self.losses.values()))
        assert scheduler.counts.resent_units == self.resent
        assert len(scheduler._idle) <= len(self.workers)
        assert len(scheduler._checks) <= 5 * len(self.workers)
        assert scheduler._queue._unsent <= self.open
        assert scheduler._queue._issue_of.keys() == self.open
        assert scheduler._queue._num_ended == self.ended
        assert len(scheduler._queue._heap) <= len(self.issued)
        assert sum(scheduler._queue._num_unsent.values()) == len(scheduler._queue._unsent)

    def finish_without_faults(self):
        """Make every started worker join and answer all its units, without further faults."""
        for _ in range(20 * (len(self.workers) + len(self.issued)) + 100):
            if self.over or not self.open:
                return
            for worker, state in list(self.workers.items()):
                if state == STARTED:
                    self.join(worker)
                elif worker in self.tasks:
                    self.answer(worker)
                if self.over:
                    return
            if self.open and not self.tasks:
                wait = self.scheduler.seconds_to_wait(self.now)
                assert wait < math.inf
                self.pass_time(wait)
        raise AssertionError(f"some units are never answered: {self.log[-20:]}")

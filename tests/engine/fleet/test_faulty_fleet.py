"""Harm to a fleet: what is done is counted, draws belong to units, and poll waits without being busy."""

import json
import queue
import signal
import subprocess
import time

import pytest

from sparring.core.errors import ConfigError
from sparring.engine.workers.fleet.base import WorkerMessage
from tests.engine.fleet.faulty_fleet import FaultPlan, FaultyFleet


class Echo:
    elastic = False

    def __init__(self, workers=2, *, has_processes=False):
        self.workers, self.has_processes = workers, has_processes
        self.messages, self.ended, self.time, self.polls = queue.SimpleQueue(), [], 0.0, 0

    def now(self):
        return time.monotonic() if self.has_processes else self.time

    def start(self, worker):
        self.messages.put(WorkerMessage(worker, b'{"ready": {}}'))

    def send(self, worker, message, files):
        numbers = [unit[0] for unit in json.loads(message)["units"]]
        self.messages.put(
            WorkerMessage(worker, json.dumps({"units": [{"number": number} for number in numbers]}).encode() + b"\n")
        )

    def poll(self, seconds):
        self.polls += 1
        try:
            return [self.messages.get(timeout=max(seconds, 0.001) if self.has_processes else 0.0)]
        except queue.Empty:
            self.time += seconds
            return []

    def end(self, worker):
        self.ended.append(worker)

    def close(self):
        self.ended.append("all")


def task_of(*units):
    return json.dumps({"units": [[unit] for unit in units]}).encode()


def started(harm, seed=0, **options):
    fleet = Echo(**options)
    chaos = FaultyFleet(fleet, seed, harm)
    for worker in range(fleet.workers):
        chaos.start(worker)
    for worker in range(fleet.workers):
        assert chaos.poll(5.0) == [WorkerMessage(worker, b'{"ready": {}}')]
    return fleet, chaos


def numbers(messages):
    return [[unit["number"] for unit in json.loads(message.message)["units"]] for message in messages]


def heard_in(chaos, seconds):
    end, timed = chaos.now() + seconds, []
    while chaos.now() < end:
        timed += [(chaos.now(), message) for message in chaos.poll(end - chaos.now())]
    return timed


def delay(unit, seed=0, worker=0, before=()):
    _, chaos = started(FaultPlan(mean=2.0, sigma=1.0), seed)
    for earlier in before:
        chaos.send(worker, task_of(earlier), {})
        heard_in(chaos, 1000)
    began = chaos.now()
    chaos.send(worker, task_of(unit), {})
    ((when, _),) = heard_in(chaos, 1000)
    return when - began


def test_a_unit_is_held_back_as_long_whoever_plays_it_and_whenever():
    first = delay(5)
    assert first == pytest.approx(delay(5, worker=1)) == pytest.approx(delay(5, before=[1, 5, 3]))
    assert first != pytest.approx(delay(6)) and first != pytest.approx(delay(5, seed=1))
    _, chaos = started(FaultPlan(mean=2.0, sigma=1.0))
    before = chaos.now()
    chaos.send(0, task_of(5, 6), {})
    ((when, message),) = heard_in(chaos, 1000)
    assert numbers([message]) == [[5, 6]] and when - before == pytest.approx(first + delay(6))
    assert chaos.counts()["held_back"] == 1


def test_an_answer_is_given_twice():
    _, chaos = started(FaultPlan(twice=1.0))
    chaos.send(0, task_of(3), {})
    assert numbers([message for _, message in heard_in(chaos, 50)]) == [[3], [3]]
    assert chaos.counts()["given_twice"] == 1


def test_rubbish_comes_in_place_of_an_answer_until_the_unit_has_had_enough():
    _, chaos = started(FaultPlan(rubbish=1.0, most=2))
    for _ in range(2):
        chaos.send(0, task_of(3), {})
        (answer,) = chaos.poll(5.0)
        assert not answer.message.startswith(b'{"units": [{"number": 3}]}\n')
        chaos.end(0)
        chaos.start(0)
        chaos.poll(5.0)
    chaos.send(0, task_of(3), {})
    assert numbers(chaos.poll(5.0)) == [[3]] and chaos.counts()["spoilt"] == 2


def test_a_worker_that_is_killed_is_gone_and_what_it_said_is_not_heard():
    fleet, chaos = started(FaultPlan(kills=1, chance=1.0, mean=1000.0))
    chaos.send(0, task_of(3), {})
    timed = heard_in(chaos, 5000)
    assert [message for _, message in timed] == [WorkerMessage(0, None)] and fleet.ended == [0]
    chaos.start(0)
    assert chaos.poll(5.0)[0].message == b'{"ready": {}}'
    chaos.send(0, task_of(3), {})
    assert numbers([message for _, message in heard_in(chaos, 90000)]) == [[3]]  # no more than it was told to kill
    assert chaos.counts() | {"held_back": 0} == {
        "killed": 1,
        "stopped": 0,
        "held_back": 0,
        "given_twice": 0,
        "spoilt": 0,
    }


def test_no_process_is_killed_twice():
    process = subprocess.Popen(["sleep", "60"])
    fleet, chaos = started(FaultPlan(kills=2, chance=1.0), workers=1)
    fleet.pids = {0: process.pid}
    chaos.send(0, task_of(3), {})
    chaos.send(0, task_of(4), {})
    heard_in(chaos, 50)  # the fleet has not noticed
    assert chaos.counts()["killed"] == 1 and process.wait(10) == -signal.SIGKILL


def test_nothing_is_heard_of_a_worker_that_was_ended():
    fleet, chaos = started(FaultPlan(mean=10.0))
    chaos.send(0, task_of(3), {})
    chaos.poll(0.0)
    chaos.end(0)
    chaos.start(0)  # what it said before is not of its new life
    assert [message.message for _, message in heard_in(chaos, 100)] == [b'{"ready": {}}'] and fleet.ended == [0]
    chaos.close()
    assert fleet.ended == [0, "all"]


def test_it_waits_on_the_real_clock_without_being_busy():
    fleet, chaos = started(FaultPlan(mean=0.4), has_processes=True)
    chaos.send(0, task_of(3), {})
    polls, began = fleet.polls, time.monotonic()
    messages = chaos.poll(5.0)
    assert 0.39 < time.monotonic() - began < 2.0 and numbers(messages) == [[3]]
    assert fleet.polls - polls < 5
    began = time.monotonic()
    assert chaos.poll(0.2) == [] and time.monotonic() - began > 0.19


def test_only_processes_can_be_stopped():
    with pytest.raises(ConfigError, match="Only worker processes"):
        FaultyFleet(Echo(), 0, FaultPlan(hangs=1))

"""The test double FaultyFleet: faults are counted and belong to units, and poll waits without a busy loop."""

import json
import queue
import signal
import subprocess
import time

import pytest

from sparring.core.errors import ConfigError
from sparring.engine.workers.fleet.base import WorkerMessage
from tests.engine.fleet.faulty_fleet import FaultPlan, FaultyFleet


class EchoFleet:
    elastic = False

    def __init__(self, workers=2, *, has_processes=False):
        self.workers, self.has_processes = workers, has_processes
        self.messages, self.ended, self.time, self.polls = queue.SimpleQueue(), [], 0.0, 0

    def now(self):
        return time.monotonic() if self.has_processes else self.time

    def start(self, worker):
        self.messages.put(WorkerMessage(worker, b'{"ready": {}}'))

    def send(self, worker, message, files):
        unit_numbers = [unit[0] for unit in json.loads(message)["units"]]
        self.messages.put(
            WorkerMessage(
                worker, json.dumps({"units": [{"number": number} for number in unit_numbers]}).encode() + b"\n"
            )
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


def task_message(*units):
    return json.dumps({"units": [[unit] for unit in units]}).encode()


def started_fleet(faults, seed=0, **options):
    fleet = EchoFleet(**options)
    faulty_fleet = FaultyFleet(fleet, seed, faults)
    for worker in range(fleet.workers):
        faulty_fleet.start(worker)
    for worker in range(fleet.workers):
        assert faulty_fleet.poll(5.0) == [WorkerMessage(worker, b'{"ready": {}}')]
    return fleet, faulty_fleet


def unit_numbers(messages):
    return [[unit["number"] for unit in json.loads(message.message)["units"]] for message in messages]


def messages_with_times(faulty_fleet, seconds):
    deadline, timed_messages = faulty_fleet.now() + seconds, []
    while faulty_fleet.now() < deadline:
        timed_messages += [
            (faulty_fleet.now(), message) for message in faulty_fleet.poll(deadline - faulty_fleet.now())
        ]
    return timed_messages


def delay_of(unit, seed=0, worker=0, earlier_units=()):
    _, faulty_fleet = started_fleet(FaultPlan(mean=2.0, sigma=1.0), seed)
    for earlier_unit in earlier_units:
        faulty_fleet.send(worker, task_message(earlier_unit), {})
        messages_with_times(faulty_fleet, 1000)
    start_time = faulty_fleet.now()
    faulty_fleet.send(worker, task_message(unit), {})
    ((arrival_time, _),) = messages_with_times(faulty_fleet, 1000)
    return arrival_time - start_time


def test_the_delay_of_a_unit_does_not_depend_on_worker_or_time():
    first_delay = delay_of(5)
    assert first_delay == pytest.approx(delay_of(5, worker=1)) == pytest.approx(delay_of(5, earlier_units=[1, 5, 3]))
    assert first_delay != pytest.approx(delay_of(6)) and first_delay != pytest.approx(delay_of(5, seed=1))
    _, faulty_fleet = started_fleet(FaultPlan(mean=2.0, sigma=1.0))
    start_time = faulty_fleet.now()
    faulty_fleet.send(0, task_message(5, 6), {})
    ((arrival_time, message),) = messages_with_times(faulty_fleet, 1000)
    assert unit_numbers([message]) == [[5, 6]] and arrival_time - start_time == pytest.approx(first_delay + delay_of(6))
    assert faulty_fleet.counts()["held_back"] == 1


def test_the_plan_can_deliver_an_answer_twice():
    _, faulty_fleet = started_fleet(FaultPlan(twice=1.0))
    faulty_fleet.send(0, task_message(3), {})
    assert unit_numbers([message for _, message in messages_with_times(faulty_fleet, 50)]) == [[3], [3]]
    assert faulty_fleet.counts()["given_twice"] == 1


def test_answers_are_replaced_until_the_unit_has_ended_enough_workers():
    _, faulty_fleet = started_fleet(FaultPlan(rubbish=1.0, most=2))
    for _ in range(2):
        faulty_fleet.send(0, task_message(3), {})
        (answer,) = faulty_fleet.poll(5.0)
        assert not answer.message.startswith(b'{"units": [{"number": 3}]}\n')
        faulty_fleet.end(0)
        faulty_fleet.start(0)
        faulty_fleet.poll(5.0)
    faulty_fleet.send(0, task_message(3), {})
    assert unit_numbers(faulty_fleet.poll(5.0)) == [[3]] and faulty_fleet.counts()["spoilt"] == 2


def test_messages_of_a_killed_worker_are_dropped():
    fleet, faulty_fleet = started_fleet(FaultPlan(kills=1, chance=1.0, mean=1000.0))
    faulty_fleet.send(0, task_message(3), {})
    timed_messages = messages_with_times(faulty_fleet, 5000)
    assert [message for _, message in timed_messages] == [WorkerMessage(0, None)] and fleet.ended == [0]
    faulty_fleet.start(0)
    assert faulty_fleet.poll(5.0)[0].message == b'{"ready": {}}'
    faulty_fleet.send(0, task_message(3), {})
    # the plan allows no second kill
    assert unit_numbers([message for _, message in messages_with_times(faulty_fleet, 90000)]) == [[3]]
    assert faulty_fleet.counts() | {"held_back": 0} == {
        "killed": 1,
        "stopped": 0,
        "held_back": 0,
        "given_twice": 0,
        "spoilt": 0,
    }


def test_a_process_is_killed_once():
    process = subprocess.Popen(["sleep", "60"])
    fleet, faulty_fleet = started_fleet(FaultPlan(kills=2, chance=1.0), workers=1)
    fleet.pids = {0: process.pid}
    faulty_fleet.send(0, task_message(3), {})
    faulty_fleet.send(0, task_message(4), {})
    messages_with_times(faulty_fleet, 50)  # the fleet has not noticed the death yet
    assert faulty_fleet.counts()["killed"] == 1 and process.wait(10) == -signal.SIGKILL


def test_messages_of_an_ended_worker_are_dropped():
    fleet, faulty_fleet = started_fleet(FaultPlan(mean=10.0))
    faulty_fleet.send(0, task_message(3), {})
    faulty_fleet.poll(0.0)
    faulty_fleet.end(0)
    faulty_fleet.start(0)  # a message from before the restart is dropped
    assert [message.message for _, message in messages_with_times(faulty_fleet, 100)] == [
        b'{"ready": {}}'
    ] and fleet.ended == [0]
    faulty_fleet.close()
    assert fleet.ended == [0, "all"]


def test_poll_waits_without_a_busy_loop():
    fleet, faulty_fleet = started_fleet(FaultPlan(mean=0.4), has_processes=True)
    faulty_fleet.send(0, task_message(3), {})
    polls_before, start_time = fleet.polls, time.monotonic()
    messages = faulty_fleet.poll(5.0)
    assert 0.39 < time.monotonic() - start_time < 2.0 and unit_numbers(messages) == [[3]]
    assert fleet.polls - polls_before < 5
    start_time = time.monotonic()
    assert faulty_fleet.poll(0.2) == [] and time.monotonic() - start_time > 0.19


def test_only_processes_can_be_stopped():
    with pytest.raises(ConfigError, match="Only worker processes"):
        FaultyFleet(EchoFleet(), 0, FaultPlan(hangs=1))

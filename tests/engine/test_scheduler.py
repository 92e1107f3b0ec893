"""The scheduler: every event and command by hand, and random sequences of events in a simulated fleet."""

import random
import sys

import pytest

from sparring.engine.workers.unit_scheduler import (
    AbandonRun,
    EndWorker,
    SendUnits,
    StartWorker,
    TimeoutRule,
    UnitScheduler,
    WorkerUtilisation,
)
from tests.engine.scheduler_world import STARTED, World

NUM_EVENTS = 24


def scheduler_with_ready_workers(workers, **options):
    scheduler = UnitScheduler(workers, **options)
    assert scheduler.tick(0.0) == [StartWorker(number) for number in range(workers)]
    for number in range(workers):
        assert scheduler.joined(number, 0.0) == []
    return scheduler


def test_all_workers_are_started_at_the_first_event():
    assert UnitScheduler(2).tick(5.0) == [StartWorker(0), StartWorker(1)]
    assert UnitScheduler(2).issued([0], 5.0) == [StartWorker(0), StartWorker(1)]


def test_each_message_has_a_share_of_half_of_the_waiting_units():
    scheduler = scheduler_with_ready_workers(2)
    # 12 units wait for 2 workers: 12 / (2 x 2) = 3 per message; then 9 / 4, rounded up
    assert scheduler.issued(range(12), 0.0) == [SendUnits(0, (0, 1, 2)), SendUnits(1, (3, 4, 5))]
    assert scheduler.answered(1, (3, 4, 5), 1.0) == [SendUnits(1, (6, 7))]
    assert scheduler.answered(0, (0, 1, 2), 1.0) == [SendUnits(0, (8,))]


def test_a_message_has_about_one_second_of_play_once_units_are_timed():
    scheduler = scheduler_with_ready_workers(1)
    assert scheduler.issued(range(40), 0.0) == [SendUnits(0, tuple(range(20)))]
    # 20 units took 4 s: 0.2 s each, so 5 units per second
    assert scheduler.answered(0, range(20), 4.0) == [SendUnits(0, (20, 21, 22, 23, 24))]
    # the median of seconds per unit is still 0.2
    assert scheduler.answered(0, range(20, 25), 50.0) == [SendUnits(0, tuple(range(25, 30)))]


def test_an_answer_frees_the_worker_and_the_unit_is_never_sent_again():
    scheduler = scheduler_with_ready_workers(1)
    assert scheduler.issued([0], 0.0) == [SendUnits(0, (0,))]
    assert scheduler.answered(0, (0,), 3.0) == []
    assert scheduler.busy_seconds(9.0) == 3.0
    assert scheduler.issued([1], 9.0) == [SendUnits(0, (1,))]
    assert scheduler.busy_seconds(10.0) == 4.0


def test_units_of_a_lost_worker_are_resent_first_and_one_by_one():
    scheduler = scheduler_with_ready_workers(2)
    assert scheduler.issued(range(16), 0.0) == [SendUnits(0, (0, 1, 2, 3)), SendUnits(1, (4, 5, 6))]
    scheduler.lost(0, 0.01)
    assert scheduler.answered(1, (4, 5, 6), 0.02)[-1] == SendUnits(1, (0,))
    assert scheduler.answered(1, (0,), 0.03) == [SendUnits(1, (1,))]
    assert (scheduler.counts.lost_workers, scheduler.counts.resent_units) == (1, 4)
    for unit in (1, 2, 3):
        commands = scheduler.answered(1, (unit,), 0.04)
    assert commands == [SendUnits(1, (7, 8, 9))]  # 9 units wait


def test_a_unit_that_was_sent_alone_to_five_lost_workers_is_given_up():
    scheduler = scheduler_with_ready_workers(5)
    scheduler.issued([7], 0.0)
    for worker in range(4):
        assert SendUnits(worker + 1, (7,)) in scheduler.lost(worker, 0.1)
    assert scheduler.lost(4, 0.2) == [AbandonRun("it has ended 5 workers", 7)]


def restart_times(scheduler, worker, time, num_losses):
    delays = []
    for _ in range(num_losses):
        scheduler.lost(worker, time)
        lost_at = time
        while not any(command == StartWorker(worker) for command in scheduler.tick(time)):
            assert scheduler.seconds_to_wait(time) > 0
            time += scheduler.seconds_to_wait(time)
        delays.append(time - lost_at)
    return delays


def test_the_restart_delay_doubles_from_half_a_second_to_thirty():
    assert restart_times(scheduler_with_ready_workers(2), 0, 100.0, 9) == pytest.approx(
        [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    )
    assert restart_times(scheduler_with_ready_workers(1, restarts=10**6), 0, 100.0, 1100)[-1] == pytest.approx(30)
    scheduler = scheduler_with_ready_workers(1, restarts=1)  # one restart per hour is allowed
    restart_times(scheduler, 0, 10.0, 1)
    assert restart_times(scheduler, 0, 10.0 + 3601, 1) == pytest.approx([1.0])


def test_an_answer_resets_the_restart_delay():
    scheduler = scheduler_with_ready_workers(1)
    restart_times(scheduler, 0, 100.0, 4)
    scheduler.joined(0, 120.0)
    scheduler.issued([0], 120.0)
    scheduler.answered(0, (0,), 121.0)
    assert restart_times(scheduler, 0, 130.0, 1) == pytest.approx([0.5])


def test_a_lost_worker_is_restarted_although_a_check_was_due():
    # the unit is sent at 0, so a check is due at 60; the worker is lost at 59.8, so it is restarted at 60.3
    scheduler = scheduler_with_ready_workers(1)
    scheduler.issued([0], 0.0)
    scheduler.lost(0, 59.8)
    assert scheduler.tick(60.0) == []
    assert scheduler.seconds_to_wait(60.0) == pytest.approx(0.3)
    assert scheduler.tick(60.3) == [StartWorker(0)]


def test_a_worker_beyond_its_restarts_is_dropped_and_no_worker_ends_the_run():
    scheduler = scheduler_with_ready_workers(2, restarts=1)
    for worker in (0, 1):
        restart_times(scheduler, worker, 10.0, 1)
    assert scheduler.lost(0, 20.0) == []
    (command,) = scheduler.lost(1, 20.0)
    assert isinstance(command, AbandonRun)
    assert command.unit is None
    assert "more than 1 times in an hour (scale.restarts)" in command.why


def test_a_worker_beyond_its_time_limit_is_ended():
    scheduler = scheduler_with_ready_workers(1, timeout=5.0)
    scheduler.issued(range(6), 0.0)
    assert scheduler.playing_units(0) == (0, 1, 2)
    assert scheduler.tick(14.9) == []
    (command,) = scheduler.tick(15.0)
    assert command == EndWorker(0, "worker 0 has not answered 3 units in 15 seconds (scale.timeout)")
    assert scheduler.counts.timed_out_units == 3
    assert scheduler.lost(0, 15.0) == []
    assert scheduler.tick(15.5) == [StartWorker(0)]


def test_the_time_limit_is_20_medians_and_at_least_60_seconds():
    rule = TimeoutRule(None)
    assert rule.seconds_for(1) == 1200  # no unit has been timed yet
    rule.record(10.0, 2)  # 2 units in 10 s: 5 seconds each
    assert rule.seconds_for(1) == 100
    rule.record(1.0, 100)  # 100 units in 1 s: 0.01 seconds each
    assert rule.seconds_for(1) == 60
    assert rule.seconds_for(1000) == pytest.approx(200)
    assert TimeoutRule(2.5).seconds_for(4) == 10


def test_a_hanging_worker_is_ended_once_other_workers_are_timed():
    scheduler = scheduler_with_ready_workers(2)
    scheduler.issued(range(256), 0.0)
    assert len(scheduler.playing_units(0)) == 64
    time, end_command = 0.0, None
    while end_command is None and time < 4000:
        time += 1.0
        commands = scheduler.answered(1, scheduler.playing_units(1), time) if scheduler.playing_units(1) else []
        commands = commands + scheduler.tick(time)
        end_command = next((command for command in commands if isinstance(command, EndWorker)), None)
    assert end_command is not None
    assert time == 60


def test_a_worker_that_does_not_start_in_time_is_ended():
    scheduler = UnitScheduler(1)
    scheduler.tick(0.0)
    assert scheduler.seconds_to_wait(0.0) == 600
    assert scheduler.tick(599.0) == []
    assert scheduler.tick(600.0) == [EndWorker(0, "worker 0 was not ready within 600 seconds")]


def test_an_elastic_fleet_waits_longer_for_workers_but_not_for_ever():
    scheduler = UnitScheduler(2, elastic=True)
    assert scheduler.tick(1000.0) == [StartWorker(0), StartWorker(1)]
    assert scheduler.tick(9000.0) == []
    assert scheduler.issued([0], 9000.0) == []
    assert scheduler.tick(9590.0) == []
    assert scheduler.seconds_to_wait(9590.0) == 10
    assert scheduler.tick(9599.0) == []
    assert scheduler.tick(9600.0) == [AbandonRun("no worker was ready within 600 seconds")]


def test_a_loss_of_the_last_elastic_worker_restarts_the_waiting_time():
    scheduler = UnitScheduler(1, elastic=True)
    scheduler.issued([0], 0.0)
    scheduler.joined(0, 1.0)
    scheduler.answered(0, (0,), 2.0)
    scheduler.issued([1], 3000.0)
    scheduler.lost(0, 4000.0)
    assert scheduler.tick(4000.5) == [StartWorker(0)]
    assert scheduler.tick(4599.0) == []
    assert isinstance(scheduler.tick(4600.0)[0], AbandonRun)


def run_random_events(seed, num_events=NUM_EVENTS):
    generator = random.Random(seed)
    world = World(
        generator.randint(1, 4),
        timeout=generator.choice([None, None, 5.0]),
        restarts=generator.choice([0, 2, 10]),
        elastic=generator.random() < 0.3,
    )
    for _ in range(num_events):
        if world.over:
            break
        do_random_event(world, generator)
    return world


def do_random_event(world, generator):
    worker = generator.randrange(len(world.workers))
    starting_workers = [number for number, state in world.workers.items() if state == STARTED]
    playing_workers = list(world.tasks)
    event_draw = generator.random()
    if event_draw < 0.14:
        world.issue(generator.choice([1, 2, 7, 20]))
    elif event_draw < 0.34:
        world.join(generator.choice(starting_workers or [worker]))
    elif event_draw < 0.62 and playing_workers:
        world.answer(generator.choice(playing_workers))
    elif event_draw < 0.70 and world.sent:
        world.answer(worker, generator.choice(world.sent)[1])
    elif event_draw < 0.80:
        world.lose(generator.choice(playing_workers or [worker]))
    elif event_draw < 0.84:
        world.give_back(worker)
    elif event_draw < 0.86:
        world.answer(worker, ())
    else:
        world.pass_time(generator.choice([None, None, 0.1, 1.0, 30.0, 700.0]))


@pytest.mark.parametrize("num_worlds", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_after_any_events_every_unit_is_learnt_once(num_worlds):
    num_learnt = num_given_up = num_timed_out = 0
    for seed in range(num_worlds):
        world = run_random_events(seed)
        try:
            world.finish_without_faults()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert len(world.learnt) == len(set(world.learnt))
        assert world.over or sorted(world.learnt) == world.issued
        num_learnt, num_given_up = num_learnt + len(world.learnt), num_given_up + (world.over is not None)
        num_timed_out += world.scheduler.counts.timed_out_units
    assert num_learnt > num_worlds  # more than one unit per course was learnt
    assert 0.02 * num_worlds < num_given_up < 0.5 * num_worlds
    assert num_timed_out > 0.02 * num_worlds


def test_a_long_run_does_not_accumulate_state():
    world = World(4, restarts=10**6)
    generator = random.Random(0)
    for _ in range(3000):
        if len(world.open) < 40:
            world.issue(8)
        do_random_event(world, generator)
        world.sent, world.log = world.sent[-20:], []
        world.over = None
    scheduler = world.scheduler
    assert len(world.learnt) > 500
    assert len(scheduler._queue._heap) <= len(world.open) + 40
    world.finish_without_faults()
    assert not scheduler._queue._issue_of
    assert not scheduler._queue._num_ended
    assert not scheduler._queue._num_unsent


def executed_lines_per_unit(workers, num_units):
    scheduler, num_lines = scheduler_with_ready_workers(workers), 0
    units_by_worker = {command.worker: command.units for command in scheduler.issued(range(num_units), 0.0)}

    def count_lines(frame, event, argument):
        nonlocal num_lines
        num_lines += event == "line"
        return count_lines

    num_answered, previous_trace = 0, sys.gettrace()
    sys.settrace(count_lines)
    try:
        for time in range(1, 2 * 10):
            worker = next(iter(units_by_worker))
            num_units = units_by_worker.pop(worker)
            num_answered += len(num_units)
            commands = scheduler.answered(worker, num_units, float(time))
            units_by_worker |= {command.worker: command.units for command in commands if isinstance(command, SendUnits)}
    finally:
        sys.settrace(previous_trace)
    return num_lines / num_answered


def test_the_cost_of_an_event_grows_with_the_logarithm_of_workers_and_units():
    """Executed lines are counted instead of seconds, which depend on the load of the machine."""
    lines_per_unit = {workers: executed_lines_per_unit(workers, 100 * workers) for workers in (10, 1000)}
    assert lines_per_unit[1000] < 3 * lines_per_unit[10]  # log(1000) is 3 log(10), and each unit adds a constant


def test_utilisation_sums_the_states_of_a_worker():
    scheduler = UnitScheduler(2)
    scheduler.tick(0.0)
    scheduler.joined(0, 1.0)
    scheduler.issued([0], 2.0)  # sent to worker 0
    assert scheduler.utilisation(4.0) == [WorkerUtilisation(2.0, 3.0, 0), WorkerUtilisation(0.0, 0.0, 0)]
    scheduler.lost(0, 5.0)
    scheduler.lost(1, 5.0)  # worker 1 was starting
    assert scheduler.utilisation(9.0) == [WorkerUtilisation(3.0, 4.0, 1), WorkerUtilisation(0.0, 0.0, 1)]
    scheduler.tick(9.0)  # both workers are started again
    scheduler.joined(0, 10.0)
    assert scheduler.utilisation(12.0)[0] == WorkerUtilisation(5.0, 6.0, 1)

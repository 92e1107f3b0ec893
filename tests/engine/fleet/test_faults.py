"""Errors that no other worker can repair end a run on workers as a run without workers."""

import errno

import pytest

from sparring.core.errors import PluginError, RunError
from sparring.core.files import TEMPORARY
from sparring.engine.workers import worker_weights
from sparring.run import checkpoint
from tests.engine.fleet import simulated
from tests.engine.fleet.network_model import NetworkModel
from tests.engine.fleet.simulated import simulated_workers
from tests.engine.fleet.test_processes import write_oracle

WORKERS = ("scale.fleet=processes", "scale.workers=3", "scale.restarts=1000")


@pytest.fixture(autouse=True)
def quiet_network():
    with simulated_workers(network=NetworkModel(sigma=1.0)):
        yield


def test_an_oracle_that_raises_ends_the_run_as_without_workers(tmp_path, train_kuhn_run, monkeypatch):
    oracle, errors = write_oracle(tmp_path, monkeypatch, "broken"), []
    for name, changes in (("alone", ()), ("workers", WORKERS)):
        with pytest.raises(PluginError) as error:
            train_kuhn_run(tmp_path / name, "steps=2", oracle, *changes)
        errors.append((type(error.value), str(error.value)))
    assert (
        errors[0] == errors[1] and "oracle 'broken'" in errors[0][1] and "This happened in step 1 of 2" in errors[0][1]
    )


def test_failed_plays_are_retried_and_dropped_as_without_workers(tmp_path, train_kuhn_run, monkeypatch):
    from sparring.environments.openspiel.base import Game

    original_reset = Game.reset

    def reset_or_fail(self, stream):
        if stream.key % 5 == 0:
            raise OSError("the cards are wet")
        return original_reset(self, stream)

    monkeypatch.setattr(Game, "reset", reset_or_fail)
    run_without_workers, run_with_workers = (
        train_kuhn_run(tmp_path / str(len(changes)), "steps=3", "rollout.group_size=4", *changes).bytes
        for changes in ((), WORKERS)
    )
    assert (
        run_without_workers == run_with_workers
        and b'"dropped_groups": 0.0' not in run_without_workers[1]
        and b'"retried_games": 0.0' not in run_without_workers[1]
    )


@pytest.mark.parametrize("is_mixed_allowed", [False, True])
def test_a_worker_with_another_torch_is_refused_unless_scale_mixed(
    tmp_path, train_kuhn_run, monkeypatch, is_mixed_allowed
):
    monkeypatch.setattr(simulated, "ready_message", lambda: b'{"ready": {"torch": "9.9"}}')
    changes = ("steps=1", *WORKERS, f"scale.mixed={str(is_mixed_allowed).lower()}")
    if is_mixed_allowed:
        assert train_kuhn_run(tmp_path / "run", *changes).timing[-1]["workers"] == 3
        return
    with pytest.raises(RunError, match=r"A worker has sparring None, .*scale.mixed=true"):
        train_kuhn_run(tmp_path / "run", *changes)


@pytest.mark.parametrize("function_name", ["save_weights", "replace"])
def test_a_full_disk_is_an_error_and_keeps_the_checkpoints(tmp_path, train_kuhn_run, monkeypatch, function_name):
    path, calls = tmp_path / "run", []
    module = worker_weights if function_name == "save_weights" else worker_weights.os
    original_function = getattr(module, function_name)

    def raise_no_space(*args):
        if TEMPORARY in str(args[0] if function_name == "replace" else args[1]) and "weights" in str(args[1]):
            calls.append(args)
            if len(calls) == 3:  # the disk is full in the third step
                raise OSError(errno.ENOSPC, "No space left on device")
        return original_function(*args)

    monkeypatch.setattr(module, function_name, raise_no_space)
    with pytest.raises(RunError, match=r"The disk is full: .*weights.* could not be written"):
        train_kuhn_run(path, "steps=4", "checkpoint.every=1", *WORKERS)
    assert checkpoint.load_latest(path).step == 2 and not (path / "weights").exists()


def truncate_weights(num_tasks):
    def wrap_fleet(fleet):
        original_send, num_left = fleet.send, [num_tasks]

        def send_truncated(worker, message, files):
            if num_left[0] and files:
                num_left[0] -= 1
                for path in files.values():
                    path.write_bytes(path.read_bytes()[:-7])
            original_send(worker, message, files)

        fleet.send = send_truncated
        return fleet

    return wrap_fleet


def test_truncated_weights_are_refused_rewritten_and_counted(tmp_path, train_kuhn_run):
    run_without_workers = train_kuhn_run(tmp_path / "alone", "steps=2")
    run_with_workers = train_kuhn_run(tmp_path / "workers", "steps=2", *WORKERS, wrap_fleet=truncate_weights(2))
    assert run_with_workers.bytes == run_without_workers.bytes
    assert 1 <= sum(line["refused_weights"] for line in run_with_workers.timing) <= 2
    assert sum(line["lost_workers"] for line in run_with_workers.timing) == 0


def test_weights_that_are_always_truncated_end_the_run(tmp_path, train_kuhn_run):
    with pytest.raises(RunError, match=r"A worker has refused the weights in .* 4 times"):
        train_kuhn_run(tmp_path / "run", "steps=1", *WORKERS, wrap_fleet=truncate_weights(1000))


def test_one_truncated_file_may_be_refused_by_many_workers(tmp_path, train_kuhn_run):
    def wrap_fleet(fleet):
        original_send, waiting_tasks = fleet.send, []

        def send_all_at_once(worker, message, files):
            waiting_tasks.append((worker, message, files))
            if len(waiting_tasks) == fleet.workers:
                path = next(iter(files.values()))
                path.write_bytes(b"torn")
                for task in waiting_tasks:
                    original_send(*task)
                fleet.send = original_send

        fleet.send = send_all_at_once
        return fleet

    changes = ("steps=1", "scale.unit_games=4", *WORKERS, "scale.workers=7")
    (line,) = train_kuhn_run(tmp_path / "run", *changes, wrap_fleet=wrap_fleet).timing
    assert line["refused_weights"] == 1

import multiprocessing
import os
import signal
import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sparring.run.sinks.base import RunStart
from sparring.run.sinks.tensorboard import tensorboard


def read_curve(folder, name="a"):
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(name)]


def run_and_kill_child(function):
    def call_and_kill():
        function()
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=call_and_kill)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("saved_step", [0, 1, 2])
def test_a_killed_and_resumed_run_has_every_step_once(tmp_path, saved_step):
    def write_three_steps():
        sink = tensorboard(RunStart(folder=tmp_path))
        for step in (1, 2, 3):
            sink.write(step, {"a": float(step)})

    run_and_kill_child(write_three_steps)
    time.sleep(1.0)  # TensorBoard orders files of the same second by process id
    sink = tensorboard(RunStart(folder=tmp_path, step=saved_step))
    for step in range(saved_step + 1, 5):
        sink.write(step, {"a": float(step)})
    sink.close()
    assert read_curve(tmp_path) == [(step, float(step)) for step in (1, 2, 3, 4)]

"""Worker processes: every job has one answer, a failure is one error here, and no process outlives the pool."""

import importlib
import multiprocessing
import os
import signal

import pytest

from sparring.core.errors import RolloutError
from sparring.core.worker_pool import WorkerPool

WORKER_MODULE = """
import os, signal, time
from sparring.core.errors import ConfigError

def make(settings):
    def answer(job):
        if job == ["bad"]:
            raise ConfigError("this job is bad")
        if job == ["odd"]:
            return 1 / 0
        if job == ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if job == ["sleep"]:
            time.sleep(600)
        return {"sum": sum(job) + settings["plus"], "worker": os.getpid()}
    return answer
"""


@pytest.fixture
def make_worker(tmp_path, monkeypatch):
    """Return a function that a new worker process can import by its module name."""
    (tmp_path / "answers_of_workers.py").write_text(WORKER_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.reload(importlib.import_module("answers_of_workers")).make


def test_jobs_are_answered_once_by_any_number_of_workers(make_worker):
    jobs = [[number, 1] for number in range(20)]
    with WorkerPool(make_worker, {"plus": 100}, 2) as pool:
        results = list(pool.results(jobs))
    assert sorted(job for job, _ in results) == jobs
    assert all(answer["sum"] == sum(job) + 100 for job, answer in results)
    assert os.getpid() not in {answer["worker"] for _, answer in results}
    assert multiprocessing.active_children() == []
    with WorkerPool(make_worker, {"plus": 0}, 2) as pool:
        assert [answer["sum"] for _, answer in pool.results([[5]])] == [5]
        assert list(pool.results([])) == []


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (["bad"], "^this job is bad$"),
        (["odd"], "ZeroDivisionError"),
        (["die"], r"died \(exit code -9\).*fewer workers"),
    ],
)
def test_a_failure_in_a_worker_is_raised_in_the_caller(make_worker, job, message):
    with pytest.raises(RolloutError, match=message), WorkerPool(make_worker, {"plus": 0}, 1) as pool:
        list(pool.results([job]))
    assert multiprocessing.active_children() == []


def test_an_interrupt_ends_the_workers_at_once(make_worker):
    # a shell starts background jobs with SIGINT ignored
    old_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), WorkerPool(make_worker, {"plus": 0}, 2) as pool:
            for _ in pool.results([["sleep"], [1], [2]]):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, old_handler)
    assert multiprocessing.active_children() == []

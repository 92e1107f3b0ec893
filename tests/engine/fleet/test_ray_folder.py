"""The folder for what Ray writes: one that a killed run has left is removed when the next one begins. No Ray is needed."""

import os
import signal
import subprocess
import sys

import pytest

from sparring.engine.workers.fleet import ray

HOLDS = "import time; from sparring.engine.workers.fleet.ray import _folder; print(_folder()[0], flush=True); time.sleep(60)"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return the folder for temporary files, whatever its length."""
    monkeypatch.setattr(ray.tempfile, "tempdir", None)
    monkeypatch.setattr(ray, "len", lambda text: 0, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_what_no_run_locks_is_removed_and_the_rest_stays(place):
    left, named, foreign = (place / name for name in ("sparring-ray-left", "sparring-ray-named", "other"))
    for folder in (left, named, foreign):
        folder.mkdir()
        (folder / "log").write_text("words")
    (named / ray.KEPT).touch()
    (place / "sparring-ray-link").symlink_to(foreign)
    first, lock = ray._folder()
    assert first.parent == place
    assert not left.exists()
    second, other = ray._folder()
    assert {path.name for path in place.iterdir()} == {first.name, second.name, named.name, "other", "sparring-ray-link"}
    assert (foreign / "log").exists()
    os.close(lock)
    third, last = ray._folder()
    assert not first.exists()
    assert second.exists()
    os.close(other)
    os.close(last)
    assert third.exists()


def test_a_folder_of_another_user_stays(place, monkeypatch):
    (place / "sparring-ray-theirs").mkdir()
    monkeypatch.setattr(ray.os, "geteuid", lambda: os.getuid() + 1)
    os.close(ray._folder()[1])
    assert (place / "sparring-ray-theirs").exists()


@pytest.mark.slow
def test_the_folder_of_a_run_that_was_killed_is_removed_and_that_of_a_run_at_work_stays(place):
    script = HOLDS.replace("print", "from sparring.engine.workers.fleet import ray; ray.len = lambda text: 0; print", 1)
    runs = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        killed, at_work = (run.stdout.readline().strip() for run in runs)
        assert os.path.isdir(killed)
        runs[0].send_signal(signal.SIGKILL)
        runs[0].wait()
        os.close(ray._folder()[1])
        assert not os.path.exists(killed)
        assert os.path.isdir(at_work)
    finally:
        for run in runs:
            run.kill()
            run.communicate()

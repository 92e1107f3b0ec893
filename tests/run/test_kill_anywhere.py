"""A run of `sparring train` that is killed anywhere and resumed ends with the bytes of an uninterrupted run.

Each life of a run is a process that calls the command line. It ends by ``os._exit`` at the k-th call that changes the disk,
without ``finally`` or flush; a write writes half of its data first. Or it ends by SIGKILL at a random time. Then the run
goes on with `--resume`, or with the first command again if no run exists yet.
"""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from sparring import cli
from sparring.core import files
from sparring.run import checkpoint, events
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from tests.run.builders import FORK, SMALL_RUN, arguments, exit_code_of_life

RECIPE = {
    **SMALL_RUN,
    "name": "killed",
    "steps": 3,
    "rollout": {"games_per_step": 8},
    "matchmaker": {"name": "pfsp", "past": 0.4},
    "league": {"every": 1, "keep": 2},
    "replay": {"name": "r3"},
    "losses": [{"name": "ppo_clip"}],
    "learner": {"average": 0.9},
    "evaluation": {"every": 2},
    "checkpoint": {"every": 1, "keep": 1},
    "store": {"every": 2},
}
KILLED = 9
CALLS = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")  # of os; writes are counted as well


class TearingFile:
    """A file whose write number ``at`` is cut in half by the end of the process."""

    def __init__(self, stream, ends):
        self.stream, self.ends = stream, ends

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, data):
        if self.ends():
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            os._exit(KILLED)
        self.stream.write(data)


def mine_the_disk(at, calls):
    """Let this process end at its call number ``at`` that touches the disk; count the calls of the main thread."""

    def ends():
        if threading.current_thread() is threading.main_thread():
            calls.value += 1
        return calls.value == at

    def mined(function):
        def call(*args, **kwargs):
            if ends():
                os._exit(KILLED)
            return function(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, mined(getattr(os, name)))
    for module in (files, events):
        module.open = lambda *args, **kwargs: TearingFile(open(*args, **kwargs), ends)  # noqa: SIM115


def life(recipe, path, *, at=0, seconds=None):
    calls = FORK.Value("q", 0, lock=False)  # a process that is killed would keep the lock
    return exit_code_of_life(recipe, path, mine_the_disk, at, calls, seconds=seconds), calls.value


def finish(recipe, path):
    code, _ = life(recipe, path)
    assert code == 0, path.with_suffix(".log").read_text()


def fingerprint(path):
    """Return everything a run leaves that must be a function of (config, seed, code); check the rest of the folder."""
    assert [line["step"] for line in read_lines(path / "timing.jsonl")] == [1, 2, 3]
    assert (path / "report.html").is_file()
    for folder in ("checkpoints", "episodes"):
        assert not list((path / folder).glob(".*"))
    latest = checkpoint.load_latest(path)
    assert latest.notes == ()
    latest_files = {file.name: file.read_bytes() for file in sorted(latest.path.iterdir())}
    parts = {file.name: file.read_bytes() for file in sorted((path / "episodes").iterdir())}
    return (path / "metrics.jsonl").read_bytes(), (path / "config.yaml").read_bytes(), latest_files, parts


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "killed.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


@pytest.fixture(scope="module")
def uninterrupted_run(tmp_path_factory, recipe):
    folder = tmp_path_factory.mktemp("whole")
    # what is imported late is imported once, for all forks
    cli.app(arguments(recipe, folder / "here"), standalone_mode=False)
    path, start_time = folder / "run", time.monotonic()
    code, calls = life(recipe, path)
    assert code == 0, path.with_suffix(".log").read_text()
    assert fingerprint(path) == fingerprint(folder / "here")
    return fingerprint(path), calls, time.monotonic() - start_time


@pytest.mark.parametrize("few", [pytest.param(41, marks=pytest.mark.always), pytest.param(0, marks=pytest.mark.slow)])
def test_killed_at_every_call_that_touches_the_disk(tmp_path, recipe, uninterrupted_run, places, few):
    """One kill per run, at call 1, 2, 3 ... of the whole run (in the quick test at every 41st)."""
    expected, total, _ = uninterrupted_run
    assert total > 100
    for at in range(1, total + 1, few) if few else places(1, total + 1):
        path = tmp_path / str(at)
        assert life(recipe, path, at=at)[0] == KILLED
        finish(recipe, path)
        assert fingerprint(path) == expected, f"killed at call {at} of {total}"


def test_a_killed_run_of_two_policies_ends_with_the_same_bytes(tmp_path):
    recipe = tmp_path / "two.yaml"
    policies = {"leader": {"model": {"hidden_size": 16}}, "helper": {"credit": {"name": "mars"}}}
    recipe.write_text(
        yaml.safe_dump({**RECIPE, "policies": policies, "roles": {"first": "leader", "second": "helper"}})
    )
    code, total = life(recipe, tmp_path / "whole")
    assert code == 0, (tmp_path / "whole.log").read_text()
    expected = fingerprint(tmp_path / "whole")
    assert {"leader-optimizer.safetensors", "past-helper-000003.safetensors"} <= set(expected[2])
    for at in range(total // 5, total, total // 3):
        path = tmp_path / str(at)
        assert life(recipe, path, at=at)[0] == KILLED
        finish(recipe, path)
        assert fingerprint(path) == expected, f"killed at call {at} of {total}"


@pytest.fixture(scope="module")
def old(tmp_path_factory, recipe):
    path = tmp_path_factory.mktemp("old") / "run"
    cli.app(["train", str(recipe), "seed=1", "--run", str(path)], standalone_mode=False)
    return path


@pytest.mark.parametrize("few", [61, pytest.param(0, marks=pytest.mark.slow)])
def test_a_run_killed_while_it_replaces_another_ends_with_the_same_bytes(
    tmp_path, recipe, uninterrupted_run, old, places, few
):
    calls = life(recipe, Path(shutil.copytree(old, tmp_path / "over")))[1]
    assert fingerprint(tmp_path / "over") == uninterrupted_run[0]
    states = set()
    for at in range(1, calls + 1, few) if few else places(1, calls + 1, 3):
        path = Path(shutil.copytree(old, tmp_path / f"over{at}"))
        assert life(recipe, path, at=at)[0] == KILLED
        config = RunFolder.open(path).config()  # what any next command does first
        states.add(config["seed"])
        if config["seed"] == 1:
            assert fingerprint(path) == fingerprint(old), f"killed at call {at} of {calls}"
        else:
            assert checkpoint.load_latest(path).step >= 1, f"killed at call {at} of {calls}"
        finish(recipe, path)
        assert fingerprint(path) == uninterrupted_run[0], f"killed at call {at} of {calls}"
        assert not list(path.glob(".repl*"))
    assert states == {0, 1}


@pytest.mark.slow
def test_a_run_killed_again_while_resuming_ends_with_the_same_bytes(tmp_path, recipe, uninterrupted_run):
    expected, total, _ = uninterrupted_run
    chance = random.Random(0)
    for number in range(10):
        path, lives = tmp_path / str(number), 0
        while lives < 8 and life(recipe, path, at=chance.randint(1, total // 2))[0] == KILLED:
            lives += 1
        finish(recipe, path)
        assert fingerprint(path) == expected, f"run {number}, killed {lives} times"


@pytest.mark.slow
def test_a_run_killed_at_random_times_ends_with_the_same_bytes(tmp_path, recipe, uninterrupted_run):
    expected, _, lifetime = uninterrupted_run
    chance = random.Random(1)
    for number in range(20):
        path, seconds = tmp_path / str(number), lifetime * chance.random()
        life(recipe, path, seconds=seconds)
        finish(recipe, path)
        assert fingerprint(path) == expected, f"killed after {seconds:.3f} s"


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["config.yaml", "metrics.jsonl", "checkpoints/step_000001", "checkpoints/step_000002"])
def test_the_installed_command_is_killed_and_resumed(tmp_path, recipe, uninterrupted_run, mark):
    path = tmp_path / "run"
    entry = [sys.executable, "-c", "from sparring.cli import main; main()"]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*entry, *arguments(recipe, path)], **options)
    while process.poll() is None and not (path / mark).exists():
        time.sleep(0.001)
    process.kill()
    process.wait()
    subprocess.run([*entry, *arguments(recipe, path)], check=True, **options)
    assert fingerprint(path) == uninterrupted_run[0]

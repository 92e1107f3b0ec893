"""A run of `sparring train` that is killed at any moment and resumed ends with the bytes of an uninterrupted run.

Each part of a run is a process that calls the command line. It ends by ``os._exit`` at the k-th call that changes the disk,
without ``finally`` or flush; a write writes half of its data first. Or the process ends by SIGKILL at a random time.
Then the run continues with `--resume`, or with the first command again if no run exists yet.
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
from tests.run.builders import FORK, SMALL_RUN, cli_arguments, exit_code_of_life

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
KILLED_EXIT_CODE = 9
COUNTED_CALLS = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")  # functions of os; writes are counted too


class TearingFile:
    """A file that writes only half of its data before it ends the process, if ``should_end`` says so."""

    def __init__(self, stream, should_end):
        self.stream, self.should_end = stream, should_end

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, data):
        if self.should_end():
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            os._exit(KILLED_EXIT_CODE)
        self.stream.write(data)


def exit_at_call(call_number, calls):
    """Make this process end at its call number ``call_number`` that changes the disk; count the calls of the main thread."""

    def count_call():
        if threading.current_thread() is threading.main_thread():
            calls.value += 1
        return calls.value == call_number

    def exit_or_call(function):
        def counted_call(*args, **kwargs):
            if count_call():
                os._exit(KILLED_EXIT_CODE)
            return function(*args, **kwargs)

        return counted_call

    for name in COUNTED_CALLS:
        setattr(os, name, exit_or_call(getattr(os, name)))
    for module in (files, events):
        module.open = lambda *args, **kwargs: TearingFile(open(*args, **kwargs), count_call)  # noqa: SIM115


def run_until_killed(recipe, path, *, call_number=0, seconds=None):
    num_calls = FORK.Value("q", 0, lock=False)  # a killed process keeps the lock
    return exit_code_of_life(recipe, path, exit_at_call, call_number, num_calls, seconds=seconds), num_calls.value


def resume_to_the_end(recipe, path):
    code, _ = run_until_killed(recipe, path)
    assert code == 0, path.with_suffix(".log").read_text()


def fingerprint(path):
    """Return the files of a run that depend only on config, seed and code; check the rest of the folder."""
    assert [line["step"] for line in read_lines(path / "timing.jsonl")] == [1, 2, 3]
    assert (path / "report.html").is_file()
    for folder in ("checkpoints", "episodes"):
        assert not list((path / folder).glob(".*"))
    newest_checkpoint = checkpoint.load_latest(path)
    assert newest_checkpoint.notes == ()
    latest_files = {file.name: file.read_bytes() for file in sorted(newest_checkpoint.path.iterdir())}
    episode_files = {file.name: file.read_bytes() for file in sorted((path / "episodes").iterdir())}
    return (path / "metrics.jsonl").read_bytes(), (path / "config.yaml").read_bytes(), latest_files, episode_files


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "killed.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


@pytest.fixture(scope="module")
def uninterrupted_run(tmp_path_factory, recipe):
    folder = tmp_path_factory.mktemp("whole")
    # a run in this process imports all modules once, for all forks
    cli.app(cli_arguments(recipe, folder / "here"), standalone_mode=False)
    path, start_time = folder / "run", time.monotonic()
    exit_code, num_calls = run_until_killed(recipe, path)
    assert exit_code == 0, path.with_suffix(".log").read_text()
    assert fingerprint(path) == fingerprint(folder / "here")
    return fingerprint(path), num_calls, time.monotonic() - start_time


@pytest.mark.parametrize(
    "call_step", [pytest.param(41, marks=pytest.mark.always), pytest.param(0, marks=pytest.mark.slow)]
)
def test_killed_at_every_call_that_touches_the_disk(tmp_path, recipe, uninterrupted_run, places, call_step):
    """One kill per run, at call 1, 2, 3 ... of the whole run (in the quick test at every 41st)."""
    expected, num_calls, _ = uninterrupted_run
    assert num_calls > 100
    for call_number in range(1, num_calls + 1, call_step) if call_step else places(1, num_calls + 1):
        path = tmp_path / str(call_number)
        assert run_until_killed(recipe, path, call_number=call_number)[0] == KILLED_EXIT_CODE
        resume_to_the_end(recipe, path)
        assert fingerprint(path) == expected, f"killed at call {call_number} of {num_calls}"


def test_a_killed_run_of_two_policies_ends_with_the_same_bytes(tmp_path):
    recipe = tmp_path / "two.yaml"
    policies = {"leader": {"model": {"hidden_size": 16}}, "helper": {"credit": {"name": "mars"}}}
    recipe.write_text(
        yaml.safe_dump({**RECIPE, "policies": policies, "roles": {"first": "leader", "second": "helper"}})
    )
    exit_code, num_calls = run_until_killed(recipe, tmp_path / "whole")
    assert exit_code == 0, (tmp_path / "whole.log").read_text()
    expected = fingerprint(tmp_path / "whole")
    assert {"leader-optimizer.safetensors", "past-helper-000003.safetensors"} <= set(expected[2])
    for call_number in range(num_calls // 5, num_calls, num_calls // 3):
        path = tmp_path / str(call_number)
        assert run_until_killed(recipe, path, call_number=call_number)[0] == KILLED_EXIT_CODE
        resume_to_the_end(recipe, path)
        assert fingerprint(path) == expected, f"killed at call {call_number} of {num_calls}"


@pytest.fixture(scope="module")
def old_run(tmp_path_factory, recipe):
    path = tmp_path_factory.mktemp("old") / "run"
    cli.app(["train", str(recipe), "seed=1", "--run", str(path)], standalone_mode=False)
    return path


@pytest.mark.parametrize("call_step", [61, pytest.param(0, marks=pytest.mark.slow)])
def test_a_run_killed_while_it_replaces_another_ends_with_the_same_bytes(
    tmp_path, recipe, uninterrupted_run, old_run, places, call_step
):
    num_calls = run_until_killed(recipe, Path(shutil.copytree(old_run, tmp_path / "over")))[1]
    assert fingerprint(tmp_path / "over") == uninterrupted_run[0]
    seeds = set()
    for call_number in range(1, num_calls + 1, call_step) if call_step else places(1, num_calls + 1, 3):
        path = Path(shutil.copytree(old_run, tmp_path / f"over{call_number}"))
        assert run_until_killed(recipe, path, call_number=call_number)[0] == KILLED_EXIT_CODE
        config = RunFolder.open(path).config()  # the first step of every further command
        seeds.add(config["seed"])
        if config["seed"] == 1:
            assert fingerprint(path) == fingerprint(old_run), f"killed at call {call_number} of {num_calls}"
        else:
            assert checkpoint.load_latest(path).step >= 1, f"killed at call {call_number} of {num_calls}"
        resume_to_the_end(recipe, path)
        assert fingerprint(path) == uninterrupted_run[0], f"killed at call {call_number} of {num_calls}"
        assert not list(path.glob(".repl*"))
    assert seeds == {0, 1}


@pytest.mark.slow
def test_a_run_killed_again_while_resuming_ends_with_the_same_bytes(tmp_path, recipe, uninterrupted_run):
    expected, num_calls, _ = uninterrupted_run
    generator = random.Random(0)
    for number in range(10):
        path, num_kills = tmp_path / str(number), 0
        while (
            num_kills < 8
            and run_until_killed(recipe, path, call_number=generator.randint(1, num_calls // 2))[0] == KILLED_EXIT_CODE
        ):
            num_kills += 1
        resume_to_the_end(recipe, path)
        assert fingerprint(path) == expected, f"run {number}, killed {num_kills} times"


@pytest.mark.slow
def test_a_run_killed_at_random_times_ends_with_the_same_bytes(tmp_path, recipe, uninterrupted_run):
    expected, _, lifetime = uninterrupted_run
    generator = random.Random(1)
    for number in range(20):
        path, seconds = tmp_path / str(number), lifetime * generator.random()
        run_until_killed(recipe, path, seconds=seconds)
        resume_to_the_end(recipe, path)
        assert fingerprint(path) == expected, f"killed after {seconds:.3f} s"


@pytest.mark.slow
@pytest.mark.parametrize(
    "file_to_wait_for", ["config.yaml", "metrics.jsonl", "checkpoints/step_000001", "checkpoints/step_000002"]
)
def test_the_installed_command_is_killed_and_resumed(tmp_path, recipe, uninterrupted_run, file_to_wait_for):
    path = tmp_path / "run"
    command = [sys.executable, "-c", "from sparring.cli import main; main()"]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, *cli_arguments(recipe, path)], **options)
    while process.poll() is None and not (path / file_to_wait_for).exists():
        time.sleep(0.001)
    process.kill()
    process.wait()
    subprocess.run([*command, *cli_arguments(recipe, path)], check=True, **options)
    assert fingerprint(path) == uninterrupted_run[0]

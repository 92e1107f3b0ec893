"""A league of 30 and more members that is killed and resumed ends with the bytes of an uninterrupted one."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
import safetensors.torch
import yaml

from sparring.league.payoffs import Payoffs
from sparring.learn import weight_files
from sparring.run import checkpoint
from sparring.run.events import read_lines
from tests.run.builders import exit_code_of_life

RECIPE = {
    "name": "killed",
    "steps": 17,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "own": 0.3},
    "league": {
        "every": 1,
        "keep": 30,
        "start": True,
        "plays": 16,
        "learners": {
            "main": {"schedule": {"name": "gate", "against": "newest", "least": 2, "longest": 3}},
            "counter": {"matchmaker": {"name": "meta_strategy", "of": ["main"], "by": ["counter"]}, "restart": 0.5},
            "third": {"matchmaker": {"name": "by_tag", "past": {"any": 0.5}}, "restart": 1.0},
        },
    },
    "credit": {"name": "rae"},
    "warmup": {"updates": 1, "games": 8},
    "evaluation": {"every": 99, "exact": False},
    "checkpoint": {"every": 1, "keep": 2},
}
WRITTEN_FILE, LINKED_FILE = "written", "linked"


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_member_file(file_kind, file_number):
    """Kill this process at the file of a member with this number, when half of it is written, or before it is linked."""
    num_calls, save_file, link = (
        {WRITTEN_FILE: 0, LINKED_FILE: 0},
        safetensors.torch.save_file,
        weight_files.link_or_copy,
    )

    def count_file(counted_kind):
        num_calls[counted_kind] += 1
        return counted_kind == file_kind and num_calls[counted_kind] == file_number

    def save_or_kill(tensors, path):
        if Path(path).name.startswith("past-") and count_file(WRITTEN_FILE):
            data = safetensors.torch.save(tensors)
            Path(path).write_bytes(data[: len(data) // 2])
            kill_this_process()
        save_file(tensors, path)

    def link_or_kill(earlier, path):
        if count_file(LINKED_FILE):
            kill_this_process()
        return link(earlier, path)

    safetensors.torch.save_file, weight_files.link_or_copy = save_or_kill, link_or_kill


def run_until_killed(recipe, path, file_kind="", file_number=0, seconds=None):
    return exit_code_of_life(recipe, path, kill_at_member_file, file_kind, file_number, seconds=seconds)


def fingerprint(path):
    newest = checkpoint.load_latest(path)
    assert newest.notes == () and not list((path / "checkpoints").glob(".*"))
    files = {file.name: file.read_bytes() for file in sorted(newest.path.iterdir())}
    return (path / "metrics.jsonl").read_bytes(), files, (path / "league.jsonl").read_bytes()


def write_recipe(folder, **changes):
    path = folder / "killed.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **changes}))
    return path


def run_uninterrupted(recipe, path):
    start_time = time.monotonic()
    assert run_until_killed(recipe, path) == 0, path.with_suffix(".log").read_text()
    return fingerprint(path), time.monotonic() - start_time


def check_resumed_run(recipe, path, expected, description):
    assert run_until_killed(recipe, path) == 0, path.with_suffix(".log").read_text()
    assert fingerprint(path) == expected, description


WITH_TWO_SIDES = {
    "policies": {"one": {}, "two": {}}, "roles": {"first": "one", "second": "two"},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"},
    "league": {"every": 1, "keep": 30, "start": True, "plays": 18, "answer": "nash"},
    "evaluation": {"every": 1, "opponents": [{"name": "random", "games_per_seat": 2}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "file_number", "num_nash_conv_values"), [({}, 9, 1), (WITH_TWO_SIDES, 7, 3)], ids=["learners", "sides"]
)
def test_a_kill_while_a_member_is_written_or_linked_changes_no_byte(
    tmp_path, changes, file_number, num_nash_conv_values
):
    recipe = write_recipe(tmp_path, steps=3, **changes)
    expected, _ = run_uninterrupted(recipe, tmp_path / "whole")
    members = {name for name in expected[1] if name.startswith("past-")}
    assert changes or ({"past-000000.safetensors", "past-third-000003.safetensors"} <= members and len(members) >= 10)
    assert (
        len({line.get("nash_conv/kuhn_poker") for line in read_lines(tmp_path / "whole" / "metrics.jsonl")})
        == num_nash_conv_values
    )
    path = tmp_path / "run"
    assert run_until_killed(recipe, path, WRITTEN_FILE, file_number) == -signal.SIGKILL
    assert checkpoint.load_latest(path).step == 2 and list((path / "checkpoints").glob(".tmp-*/past-*"))
    assert run_until_killed(recipe, path, LINKED_FILE, 5) == -signal.SIGKILL
    check_resumed_run(recipe, path, expected, "killed twice")


@pytest.mark.slow
def test_a_league_of_thirty_killed_many_times_ends_with_the_same_bytes(tmp_path):
    recipe, generator = write_recipe(tmp_path), random.Random(0)
    expected, lifetime = run_uninterrupted(recipe, tmp_path / "whole")
    assert sum(name.startswith("past-") for name in expected[1]) >= 30
    book = Payoffs.from_json(json.loads(expected[1]["state.json"])["payoffs"])
    assert len({row.player for row in book.rows}) >= 30
    assert len(read_lines(tmp_path / "whole" / "metrics.jsonl")) == RECIPE["steps"]
    for number in range(2):
        path, num_kills = tmp_path / str(number), 0
        for _ in range(3):
            num_kills += (
                run_until_killed(recipe, path, seconds=lifetime * generator.uniform(0.05, 0.3)) == -signal.SIGKILL
            )
            file_kind, file_number = (
                (WRITTEN_FILE, generator.randint(1, 9))
                if generator.random() < 0.5
                else (LINKED_FILE, generator.randint(1, 120))
            )
            num_kills += run_until_killed(recipe, path, file_kind, file_number) == -signal.SIGKILL
        assert num_kills >= 3
        check_resumed_run(recipe, path, expected, f"run {number}, killed {num_kills} times")

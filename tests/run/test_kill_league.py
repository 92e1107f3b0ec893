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
WRITTEN, LINKED = "written", "linked"


def killed_now():
    os.kill(os.getpid(), signal.SIGKILL)


def mine_members(what, at):
    """Let this process be killed at the member's file number ``at`` that is written, half of it, or linked."""
    num_calls, save_file, link = {WRITTEN: 0, LINKED: 0}, safetensors.torch.save_file, weight_files.link_or_copy

    def count_call(kind):
        num_calls[kind] += 1
        return kind == what and num_calls[kind] == at

    def save(tensors, path):
        if Path(path).name.startswith("past-") and count_call(WRITTEN):
            data = safetensors.torch.save(tensors)
            Path(path).write_bytes(data[: len(data) // 2])
            killed_now()
        save_file(tensors, path)

    def link_or_die(earlier, path):
        if count_call(LINKED):
            killed_now()
        return link(earlier, path)

    safetensors.torch.save_file, weight_files.link_or_copy = save, link_or_die


def life(recipe, path, what="", at=0, seconds=None):
    return exit_code_of_life(recipe, path, mine_members, what, at, seconds=seconds)


def fingerprint(path):
    latest = checkpoint.load_latest(path)
    assert latest.notes == () and not list((path / "checkpoints").glob(".*"))
    files = {file.name: file.read_bytes() for file in sorted(latest.path.iterdir())}
    return (path / "metrics.jsonl").read_bytes(), files, (path / "league.jsonl").read_bytes()


def written(folder, **changes):
    path = folder / "killed.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **changes}))
    return path


def whole(recipe, path):
    began = time.monotonic()
    assert life(recipe, path) == 0, path.with_suffix(".log").read_text()
    return fingerprint(path), time.monotonic() - began


def finish(recipe, path, expected, how):
    assert life(recipe, path) == 0, path.with_suffix(".log").read_text()
    assert fingerprint(path) == expected, how


SIDES = {
    "policies": {"one": {}, "two": {}}, "roles": {"first": "one", "second": "two"},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"},
    "league": {"every": 1, "keep": 30, "start": True, "plays": 18, "answer": "nash"},
    "evaluation": {"every": 1, "opponents": [{"name": "random", "games_per_seat": 2}]},
}  # fmt: skip


@pytest.mark.parametrize(("changes", "at", "figures"), [({}, 9, 1), (SIDES, 7, 3)], ids=["learners", "sides"])
def test_a_kill_while_a_member_is_written_or_linked_changes_no_byte(tmp_path, changes, at, figures):
    recipe = written(tmp_path, steps=3, **changes)
    expected, _ = whole(recipe, tmp_path / "whole")
    members = {name for name in expected[1] if name.startswith("past-")}
    assert changes or ({"past-000000.safetensors", "past-third-000003.safetensors"} <= members and len(members) >= 10)
    assert (
        len({line.get("nash_conv/kuhn_poker") for line in read_lines(tmp_path / "whole" / "metrics.jsonl")}) == figures
    )
    path = tmp_path / "run"
    assert life(recipe, path, WRITTEN, at) == -signal.SIGKILL
    assert checkpoint.load_latest(path).step == 2 and list((path / "checkpoints").glob(".tmp-*/past-*"))
    assert life(recipe, path, LINKED, 5) == -signal.SIGKILL
    finish(recipe, path, expected, "killed twice")


@pytest.mark.slow
def test_a_league_of_thirty_killed_many_times_ends_with_the_same_bytes(tmp_path):
    recipe, chance = written(tmp_path), random.Random(0)
    expected, lifetime = whole(recipe, tmp_path / "whole")
    assert sum(name.startswith("past-") for name in expected[1]) >= 30
    book = Payoffs.from_json(json.loads(expected[1]["state.json"])["payoffs"])
    assert len({row.player for row in book.rows}) >= 30
    assert len(read_lines(tmp_path / "whole" / "metrics.jsonl")) == RECIPE["steps"]
    for number in range(2):
        path, killed = tmp_path / str(number), 0
        for _ in range(3):
            killed += life(recipe, path, seconds=lifetime * chance.uniform(0.05, 0.3)) == -signal.SIGKILL
            what, at = (WRITTEN, chance.randint(1, 9)) if chance.random() < 0.5 else (LINKED, chance.randint(1, 120))
            killed += life(recipe, path, what, at) == -signal.SIGKILL
        assert killed >= 3
        finish(recipe, path, expected, f"run {number}, killed {killed} times")

"""Run folders of strangers: whatever is in them, nothing outside of them is written, nothing waits, and errors are ours."""

import hashlib
import json
import os
import shutil
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from sparring import cli
from sparring.core.errors import CheckpointError, RunError, SparringError
from sparring.core.files import check_plain
from sparring.run.events import read_figures, read_lines

SETTINGS = ["steps=2", "threads=1", "rollout.games_per_step=8", "rollout.group_size=4", "model.hidden_size=16", "model.layers=1"]
SETTINGS += ["checkpoint.every=2", "checkpoint.keep=1", "store.every=1", "league.every=2", "replay={name: prioritised_replay}", "warmup.updates=0"]
SETTINGS += ["evaluation={every: 2, exact: false}", "learner.average=0.9"]
LAST = "checkpoints/step_000002"
DEEP = "[" * 100_000
HUGE = "1" + "0" * 400


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input="pass\n" * 8)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "run"
    outcome = call("train", "kuhn-tiny", *SETTINGS, "--run", path)
    assert outcome.exit_code == 0, outcome.output
    return path


@pytest.fixture
def run(own, tmp_path):
    shutil.copytree(own, tmp_path / "home" / "run")
    (tmp_path / "mine.txt").write_text("mine\n")
    return tmp_path / "home" / "run"


def signed(run):
    path = run / LAST / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in [name for name in manifest["files"] if (run / LAST / name).is_file()]:
        data = (run / LAST / name).read_bytes()
        manifest["files"][name] = [len(data), hashlib.sha256(data).hexdigest()]
    path.write_text(json.dumps(manifest))


def outside(run):
    top = run.parents[1]
    return {path: path.read_bytes() for path in top.rglob("*") if path.is_file() and run not in path.parents}


VERBS = {
    "evaluate": lambda run: call("evaluate", run, "--games", 2),
    "report": lambda run: call("report", run),
    "resume": lambda run: call("train", "--run", run, "--resume", "steps=3"),
    "play": lambda run: call("play", run),
    "export": lambda run: call("export", run, run / "exported"),
}


# -- names that lead out


@pytest.mark.parametrize("name", ["../../../x-1", "/tmp/x-1", "past-1/../../x-1", "past-1\n", "", "x"])
def test_a_member_of_any_other_name_is_refused(run, name):
    path = run / LAST / "engine.json"
    meta = json.loads(path.read_bytes())
    path.write_text(json.dumps({**meta, "members": {name: 1}}))
    shutil.copy(run / LAST / "model.safetensors", run.parent / "x-1.safetensors")
    signed(run)
    before = outside(run)
    for verb in ("resume", "evaluate"):
        outcome = VERBS[verb](run)
        assert isinstance(outcome.exception, CheckpointError) and "names a snapshot" in str(outcome.exception)
    assert outside(run) == before


@pytest.mark.parametrize("name", ["../../../../mine.txt", "/etc/hostname", "a/b"])
def test_a_manifest_names_files_of_its_folder_alone(run, name):
    path = run / LAST / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = [5, hashlib.sha256(b"mine\n").hexdigest()]
    path.write_text(json.dumps(manifest))
    outcome = VERBS["evaluate"](run)
    assert isinstance(outcome.exception, CheckpointError) and "no name of a file" in str(outcome.exception)


@pytest.mark.parametrize("name", ["metrics.jsonl", "report.html", ".lock", ".lock-holder", "episodes", "tensorboard", "checkpoints", LAST])
def test_a_link_out_of_the_folder_is_not_followed(run, name):
    if (run / name).is_dir():
        shutil.move(run / name, run.parents[1] / "theirs")
        (run / name).symlink_to(run.parents[1] / "theirs")
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(run.parents[1] / "mine.txt")
    before = outside(run)
    for verb in ("resume", "report"):
        outcome = VERBS[verb](run)
        assert isinstance(outcome.exception, RunError) and "is a link that leads out of" in str(outcome.exception)
    outcome = call("train", "kuhn-tiny", *SETTINGS, "--run", run, "--overwrite")
    assert isinstance(outcome.exception, RunError)
    assert outside(run) == before


def test_a_link_within_the_folder_and_a_link_to_it_are_fine(run):
    (run / "latest").symlink_to(LAST)
    (run.parent / "link").symlink_to(run)
    check_plain(run.parent / "link")
    assert VERBS["evaluate"](run.parent / "link").exit_code == 0


# -- what would be waited for


@pytest.mark.parametrize("name", [f"{LAST}/manifest.json", f"{LAST}/model.safetensors", "metrics.jsonl", "episodes/part-000009.parquet", "extra"])
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_pipe_is_refused_before_it_is_opened(run, name, kind, monkeypatch):
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        monkeypatch.chdir((run / name).parent)  # the path of a socket is short
        socket.socket(socket.AF_UNIX).bind((run / name).name)
    for verb in ("evaluate", "report", "resume"):
        outcome = VERBS[verb](run)
        assert isinstance(outcome.exception, RunError) and "a pipe, a socket or a device" in str(outcome.exception)


def test_a_file_larger_than_the_memory_is_not_read(run):
    with open(run / LAST / "average.safetensors", "r+b") as stream:
        stream.truncate(1 << 42)
    path = run / LAST / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"]["average.safetensors"][0] = 1 << 42
    path.write_text(json.dumps(manifest))
    outcome = VERBS["evaluate"](run)
    assert isinstance(outcome.exception, CheckpointError) and "larger than this machine's memory" in str(outcome.exception)


def test_a_part_of_very_many_values_is_left_out(run, monkeypatch):
    monkeypatch.setattr("sparring.play.parquet_parts.machine_bytes", lambda: 100_000)
    row = pq.read_table(run / "episodes" / "part-000002.parquet").slice(0, 1)
    pq.write_table(pa.concat_tables([row] * 1000).combine_chunks(), run / "episodes" / "part-000009.parquet")
    monkeypatch.setattr("sparring.play.store.episodes_in", lambda table: pytest.fail("was unpacked") if len(table) >= 1000 else iter(()))
    assert VERBS["report"](run).exit_code == 0


def test_of_a_part_the_first_turns_are_looked_at(run, monkeypatch):
    unpacked = []
    monkeypatch.setattr("sparring.report.sample_plays.JUDGED_ROWS", 3)
    monkeypatch.setattr("sparring.play.store.episodes_in", lambda table: unpacked.append(len(table)) or iter(()))
    assert VERBS["report"](run).exit_code == 0
    assert set(unpacked) == {3}


# -- what would be a traceback


def append(name, line):
    return lambda run: (run / name).open("a").write(line + "\n")


def write(name, text):
    return lambda run: ((run / name).write_text(text), signed(run))


def weights(change):
    def swap(run):
        path = run / LAST / "optimizer.safetensors"
        path.write_bytes(safetensors.torch.save(change(safetensors.torch.load(path.read_bytes()))))
        signed(run)

    return swap


@pytest.mark.parametrize(
    ("damage", "verbs"),
    [
        (append("metrics.jsonl", DEEP), ("report", "resume")),
        (append("metrics.jsonl", f'{{"step": {HUGE}, "legal_rate": 1}}'), ("report", "resume")),
        (append("metrics.jsonl", f'{{"step": 3, "legal_rate": {HUGE}, "return/a": "x", "nash_conv/k": [1]}}'), ("report",)),
        (append("metrics.jsonl", '{"step": 1, "return/x": -1e308}\n{"step": 2, "return/x": 1e308}'), ("report",)),
        (append("metrics.jsonl", '{"step": 3, "match/a/b": 1, "match/": 1, "match/a/b/c/d/e/success": 1}'), ("report",)),
        (append("health.jsonl", '{"step": 2, "message": ' + DEEP), ("report",)),
        (append("timing.jsonl", '{"step": 2, "seconds/round": "x"}'), ("report",)),
        (append("changes.jsonl", '[1]\n{"step": 1, "changes": 7}\n' + DEEP), ("resume",)),
        (write("sparring-run.json", DEEP), ("report", "evaluate")),
        (write(f"{LAST}/engine.json", DEEP), ("evaluate",)),
        (write(f"{LAST}/engine.json", "[1]"), ("evaluate", "resume")),
        (write(f"{LAST}/engine.json", '{"version": "x", "members": []}'), ("evaluate",)),
        (write(f"{LAST}/engine.json", f'{{"version": {HUGE}, "members": {{}}}}'), ("evaluate",)),
        (write(f"{LAST}/state.json", DEEP), ("evaluate",)),
        (write(f"{LAST}/state.json", '{"credit": 5, "curriculum": [1]}'), ("resume",)),
        (write(f"{LAST}/state.json", '{"credit": {}, "curriculum": {"kuhn_poker": 7}}'), ("resume",)),
        (lambda run: (run / LAST / "manifest.json").write_text("{}"), ("play",)),
        (lambda run: (run / LAST / "manifest.json").write_text(DEEP), ("evaluate",)),
        (write(f"{LAST}/model.safetensors", "x" * 100), ("export",)),
        (weights(lambda tensors: {"x.y": torch.zeros(1)}), ("evaluate",)),
        (weights(lambda tensors: {name: torch.zeros(3) for name in tensors}), ("resume",)),
        (write(f"{LAST}/replay.json", "[1]"), ("resume",)),
        (write(f"{LAST}/replay.json", DEEP), ("resume",)),
    ],
)
def test_damage_is_passed_over_or_an_error_of_ours(run, damage, verbs):
    damage(run)
    before = outside(run)
    for verb in verbs:
        outcome = VERBS[verb](run)
        assert outcome.exception is None or isinstance(outcome.exception, SparringError | SystemExit), repr(outcome.exception)
    assert outside(run) == before


@pytest.mark.parametrize("column", ["seat", "roles", "returns", "oracle_values", "segment_kinds", "legal_actions"])
def test_a_part_of_nulls_is_passed_over(run, column):
    table = pq.read_table(run / "episodes" / "part-000002.parquet")
    place = table.schema.get_field_index(column)
    nulls = pa.array([None] * len(table), type=table.schema.field(place).type)
    pq.write_table(table.set_column(place, table.schema.field(place), nulls), run / "episodes" / "part-000009.parquet")
    assert VERBS["report"](run).exit_code == 0


def test_figures_are_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "a": 1.5, "b": null, "c": "x", "d": [1], "e": true, "f": {HUGE}, "g": -1e200}}\n{{"step": true}}\n{{"step": -1}}\n')
    assert read_figures(path) == [{"step": 1, "a": 1.5, "b": None}]
    assert [line["step"] for line in read_lines(path)] == [1]

"""The run folder: what is made, replaced and locked there, and folders that somebody else has written to."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from sparring import cli
from sparring.core.errors import CheckpointError, LockedError, RunError, SparringError
from sparring.core.files import check_plain
from sparring.run import checkpoint
from sparring.run.config_checks import check_same
from sparring.run.events import read_figures, read_lines
from sparring.run.folder import RunFolder
from sparring.run.state import RunState
from tests.run.builders import DISK_CALLS, KillSignal, raise_at_call

CONFIG = "name: x\nsteps: 3\nseed: 0\n"


def test_a_missing_run_is_refused_with_how_to_make_one(tmp_path):
    with pytest.raises(RunError, match="sparring train"):
        RunFolder.open(tmp_path / "nowhere")


def test_a_foreign_folder_is_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(RunError, match="is not a run folder"):
            RunFolder.create(tmp_path, CONFIG, overwrite=overwrite)
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder.open(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_refused_as_run_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="is a file"):
        RunFolder.create(tmp_path / "run", CONFIG)


def test_an_existing_run_is_overwritten_only_with_overwrite(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / "metrics.jsonl").write_text("{}")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(RunError, match="--resume"):
        RunFolder.create(tmp_path, CONFIG)
    with RunFolder.create(tmp_path, "seed: 1\n", overwrite=True) as folder:
        assert not (tmp_path / "metrics.jsonl").exists()
        assert not (tmp_path / "checkpoints").exists()
        checkpoint.save(tmp_path, 1, RunState().save, keep=1)
        assert folder.config() == {"seed": 1}
    assert RunFolder.open(tmp_path).config() == {"seed": 1}
    assert {entry.name for entry in tmp_path.iterdir()} <= {"sparring-run.json", "config.yaml", "checkpoints", ".lock"}


def old_run(path, seed=0):
    RunFolder.create(path, f"name: x\nsteps: 3\nseed: {seed}\n")
    for name in (
        "metrics.jsonl",
        "a.txt",
        "z.txt",
        "checkpoints/step_000001/state.json",
        "episodes/part-000001.parquet",
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("old")
    return contents(path)


def contents(path):
    files = {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return {name: data for name, data in files.items() if not name.startswith(".lock")}


@pytest.mark.parametrize("error", [None, RunError("the new configuration cannot be trained")])
def test_a_replacement_without_a_checkpoint_restores_the_old_run(tmp_path, caplog, error):
    files_before = old_run(tmp_path)
    folder = RunFolder.create(tmp_path, "seed: 1\n", overwrite=True)
    assert contents(tmp_path) == files_before, "it is replaced when the new run begins"
    with contextlib.suppress(RunError), folder:
        (tmp_path / "metrics.jsonl").write_text("new")
        if error is not None:
            raise error
    assert contents(tmp_path) == files_before
    assert "holds the old run again" in caplog.text


def test_after_a_killed_replacement_the_next_command_restores_the_old_run(tmp_path):
    files_before = old_run(tmp_path)
    imports = "import os, signal\nfrom pathlib import Path\nfrom sparring.run.folder import RunFolder\n"
    code = f"RunFolder.create(Path({str(tmp_path)!r}), 'seed: 1', overwrite=True).__enter__()\nos.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", imports + code], check=False).returncode == -signal.SIGKILL
    assert contents(tmp_path) != files_before
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path, CONFIG)
    assert RunFolder.open(tmp_path).config()["seed"] == 0
    assert contents(tmp_path) == files_before


def test_a_reader_does_not_disturb_a_replacement_that_goes_on(tmp_path):
    old_run(tmp_path)
    with RunFolder.create(tmp_path, "seed: 1\n", overwrite=True):
        assert RunFolder.open(tmp_path).config() == {"seed": 1}
        assert (tmp_path / ".replaced" / "a.txt").is_file()


def test_a_failed_start_leaves_no_run_and_a_later_failure_keeps_its_metrics(tmp_path):
    with contextlib.suppress(RunError), RunFolder.create(tmp_path / "run", CONFIG):
        raise RunError("no such model")
    with contextlib.suppress(RunError), RunFolder.create(tmp_path / "run", CONFIG):
        (tmp_path / "run" / "metrics.jsonl").write_text("{}")
        raise RunError("the disk is full")
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path / "run", CONFIG)


def test_every_key_that_differs_is_named_with_both_values(tmp_path):
    folder = RunFolder.create(tmp_path, "learner: {epochs: 2, clip: 1.0}\ngames: [{name: kuhn_poker}]\nseed: 0\n")
    changed_config = {
        "learner": {"epochs": 4, "clip": 1.0, "extra": None},
        "environments": [{"name": "x" * 200}],
        "seed": 0,
    }
    with pytest.raises(RunError) as error:
        check_same(folder, changed_config)
    message = str(error.value)
    assert "learner.epochs differs (2, now 4)" in message
    assert "learner.extra differs (absent, now None)" in message
    assert "games differs ([{'name': 'kuhn_poker'}], now " in message
    assert "clip" not in message and "seed" not in message and len(message) < 500


def test_after_a_kill_during_creation_the_same_command_works(tmp_path, monkeypatch):
    at, calls = 0, [0]
    while calls[0] >= at:
        at += 1
        path = tmp_path / str(at)
        with monkeypatch.context() as patch:
            calls = raise_at_call(patch, at, names=(*DISK_CALLS, "unlink", "rmdir"))
            with contextlib.suppress(KillSignal):
                RunFolder.create(path, CONFIG)
        if not (path / "config.yaml").exists():
            with pytest.raises(RunError, match=r"without --resume|train one with"):
                RunFolder.open(path)
            RunFolder.create(path, CONFIG)
        assert RunFolder.open(path).config()["steps"] == 3
    assert at > 4


def test_a_run_without_its_config_is_not_treated_as_new(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(RunError, match=r"config\.yaml is missing"):
        RunFolder.open(tmp_path)


def test_of_many_processes_that_create_one_run_exactly_one_succeeds(tmp_path):
    code = """
import sys, time
from pathlib import Path
from sparring.core.errors import RunError
from sparring.run.folder import RunFolder
from sparring.run.state import RunState
path, number = Path(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
try:
    with RunFolder.create(path, f"number: {number}\\n") as folder:
        time.sleep(0.5)
        print(folder.config()["number"] == int(number))
except RunError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen([*command, str(number)], **options) for number in range(4)]
    time.sleep(1.5)  # all processes are ready to create the run
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    outputs = [child.communicate()[0].strip() for child in children]
    assert outputs.count("True") == 1, outputs
    assert all("already holds a run" in text or "Another process" in text for text in outputs if text != "True"), (
        outputs
    )


def test_the_holder_is_unknown_while_it_has_not_written_its_name(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    with RunFolder.open(tmp_path):
        (tmp_path / ".lock-holder").unlink()
        with pytest.raises(LockedError, match="pid unknown"):
            RunFolder.open(tmp_path).__enter__()
        (tmp_path / ".lock-holder").write_text("")
        with pytest.raises(LockedError, match="pid unknown"):
            RunFolder.open(tmp_path).__enter__()


def test_a_full_disk_while_locking_is_an_error_without_a_lock(tmp_path, monkeypatch):
    RunFolder.create(tmp_path, CONFIG)

    def raise_no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", raise_no_space)
        with pytest.raises(RunError, match="disk is full"):
            RunFolder.open(tmp_path).__enter__()
    with RunFolder.open(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    imports = "import os, signal\nfrom pathlib import Path\nfrom sparring.run.folder import RunFolder\n"
    code = f"{imports}RunFolder.open(Path({str(tmp_path)!r})).__enter__()\nos.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with RunFolder.open(tmp_path):
        assert (tmp_path / ".lock-holder").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    ("name", "text"), [("sparring-run.json", "{"), ("sparring-run.json", '{"format": 99}'), ("config.yaml", "[1, 2")]
)
def test_damaged_files_are_errors_with_their_names(tmp_path, name, text):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match=r"damaged|format 99|cannot be read"):
        RunFolder.open(tmp_path).config()


def test_a_second_process_is_refused(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    imports = "from pathlib import Path\nfrom sparring.run.folder import RunFolder\n"
    code = f"{imports}with RunFolder.open(Path({str(tmp_path)!r})):\n    print('in')"
    with RunFolder.open(tmp_path):
        outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert outcome.returncode != 0
        assert f"pid {os.getpid()}" in outcome.stderr
        with pytest.raises(LockedError):
            RunFolder.create(tmp_path, CONFIG, overwrite=True)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "in\n"


# run folders of strangers: whatever is in them, nothing outside of them is written, nothing waits, and errors are ours
SETTINGS = [
    "steps=2",
    "threads=1",
    "rollout.games_per_step=8",
    "rollout.group_size=4",
    "model.hidden_size=16",
    "model.layers=1",
]
SETTINGS += [
    "checkpoint.every=2",
    "checkpoint.keep=1",
    "store.every=1",
    "league.every=2",
    "replay={name: prioritised_replay}",
    "warmup.updates=0",
]
SETTINGS += ["evaluation={every: 2, exact: false}", "learner.average=0.9"]
LAST = "checkpoints/step_000002"
DEEP = "[" * 100_000
HUGE = "1" + "0" * 400


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input="pass\n" * 8)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    outcome = call("train", "kuhn-tiny", *SETTINGS, "--run", path)
    assert outcome.exit_code == 0, outcome.output
    return path


@pytest.fixture
def run(trained_run, tmp_path):
    shutil.copytree(trained_run, tmp_path / "home" / "run")
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


@pytest.mark.parametrize("name", ["../../../x-1", "/tmp/x-1", "past-1/../../x-1", "past-1\n", "", "x"])
def test_a_member_with_an_invalid_name_is_refused(run, name):
    path = run / LAST / "engine.json"
    meta = json.loads(path.read_bytes())
    path.write_text(json.dumps({**meta, "members": {name: 1}}))
    shutil.copy(run / LAST / "model.safetensors", run.parent / "x-1.safetensors")
    signed(run)
    outside_before = outside(run)
    for verb in ("resume", "evaluate"):
        outcome = VERBS[verb](run)
        assert isinstance(outcome.exception, CheckpointError) and "names a snapshot" in str(outcome.exception)
    assert outside(run) == outside_before


@pytest.mark.parametrize("name", ["../../../../mine.txt", "/etc/hostname", "a/b"])
def test_a_manifest_may_name_only_files_of_its_folder(run, name):
    path = run / LAST / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = [5, hashlib.sha256(b"mine\n").hexdigest()]
    path.write_text(json.dumps(manifest))
    outcome = VERBS["evaluate"](run)
    assert isinstance(outcome.exception, CheckpointError) and "not a file name" in str(outcome.exception)


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "report.html", ".lock", ".lock-holder", "episodes", "tensorboard", "checkpoints", LAST]
)
def test_a_link_out_of_the_folder_is_not_followed(run, name):
    if (run / name).is_dir():
        shutil.move(run / name, run.parents[1] / "theirs")
        (run / name).symlink_to(run.parents[1] / "theirs")
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(run.parents[1] / "mine.txt")
    outside_before = outside(run)
    for verb in ("resume", "report"):
        outcome = VERBS[verb](run)
        assert isinstance(outcome.exception, RunError) and "is a link that leads out of" in str(outcome.exception)
    outcome = call("train", "kuhn-tiny", *SETTINGS, "--run", run, "--overwrite")
    assert isinstance(outcome.exception, RunError)
    assert outside(run) == outside_before


def test_a_link_within_the_folder_and_a_link_to_it_are_fine(run):
    (run / "latest").symlink_to(LAST)
    (run.parent / "link").symlink_to(run)
    check_plain(run.parent / "link")
    assert VERBS["evaluate"](run.parent / "link").exit_code == 0


@pytest.mark.parametrize(
    "name",
    [f"{LAST}/manifest.json", f"{LAST}/model.safetensors", "metrics.jsonl", "episodes/part-000009.parquet", "extra"],
)
@pytest.mark.parametrize("file_kind", ["pipe", "socket"])
def test_a_pipe_is_refused_before_it_is_opened(run, name, file_kind, monkeypatch):
    (run / name).unlink(missing_ok=True)
    if file_kind == "pipe":
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
    assert isinstance(outcome.exception, CheckpointError) and "larger than this machine's memory" in str(
        outcome.exception
    )


def test_a_file_with_too_many_values_is_skipped(run, monkeypatch):
    monkeypatch.setattr("sparring.play.parquet_parts.machine_bytes", lambda: 100_000)
    row = pq.read_table(run / "episodes" / "part-000002.parquet").slice(0, 1)
    pq.write_table(pa.concat_tables([row] * 1000).combine_chunks(), run / "episodes" / "part-000009.parquet")
    monkeypatch.setattr(
        "sparring.play.store.episodes_in", lambda table: pytest.fail("was unpacked") if len(table) >= 1000 else iter(())
    )
    assert VERBS["report"](run).exit_code == 0


def test_only_the_first_turns_of_a_file_are_checked(run, monkeypatch):
    unpacked = []
    monkeypatch.setattr("sparring.report.sample_plays.JUDGED_ROWS", 3)
    monkeypatch.setattr("sparring.play.store.episodes_in", lambda table: unpacked.append(len(table)) or iter(()))
    assert VERBS["report"](run).exit_code == 0
    assert set(unpacked) == {3}


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
        (
            append("metrics.jsonl", f'{{"step": 3, "legal_rate": {HUGE}, "return/a": "x", "nash_conv/k": [1]}}'),
            ("report",),
        ),
        (append("metrics.jsonl", '{"step": 1, "return/x": -1e308}\n{"step": 2, "return/x": 1e308}'), ("report",)),
        (
            append("metrics.jsonl", '{"step": 3, "match/a/b": 1, "match/": 1, "match/a/b/c/d/e/success": 1}'),
            ("report",),
        ),
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
def test_damage_is_skipped_or_an_error_of_sparring(run, damage, verbs):
    damage(run)
    outside_before = outside(run)
    for verb in verbs:
        outcome = VERBS[verb](run)
        assert outcome.exception is None or isinstance(outcome.exception, SparringError | SystemExit), repr(
            outcome.exception
        )
    assert outside(run) == outside_before


@pytest.mark.parametrize("column", ["seat", "roles", "returns", "oracle_values", "segment_kinds", "legal_actions"])
def test_a_file_of_nulls_is_skipped(run, column):
    table = pq.read_table(run / "episodes" / "part-000002.parquet")
    column_index = table.schema.get_field_index(column)
    nulls = pa.array([None] * len(table), type=table.schema.field(column_index).type)
    pq.write_table(
        table.set_column(column_index, table.schema.field(column_index), nulls),
        run / "episodes" / "part-000009.parquet",
    )
    assert VERBS["report"](run).exit_code == 0


def test_figures_are_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        f'{{"step": 1, "a": 1.5, "b": null, "c": "x", "d": [1], "e": true, "f": {HUGE}, "g": -1e200}}\n{{"step": true}}\n{{"step": -1}}\n'
    )
    assert read_figures(path) == [{"step": 1, "a": 1.5, "b": None}]
    assert [line["step"] for line in read_lines(path)] == [1]

"""The run folder: how it is created, replaced and locked, and folders that a stranger has changed."""

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
from sparring.core.files import check_regular_files
from sparring.run import checkpoint
from sparring.run.config_checks import check_same
from sparring.run.events import read_figures, read_lines
from sparring.run.folder import RunFolder
from sparring.run.state import RunState
from tests.run.builders import DISK_CALLS, KillSignal, raise_at_call

CONFIG = "name: x\nsteps: 3\nseed: 0\n"


def test_the_error_for_a_missing_run_says_how_to_train_one(tmp_path):
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


def write_old_run(path, seed=0):
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
    return read_files(path)


def read_files(path):
    files = {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return {name: data for name, data in files.items() if not name.startswith(".lock")}


@pytest.mark.parametrize("error", [None, RunError("the new configuration cannot be trained")])
def test_a_replacement_without_a_checkpoint_restores_the_old_run(tmp_path, caplog, error):
    files_before = write_old_run(tmp_path)
    folder = RunFolder.create(tmp_path, "seed: 1\n", overwrite=True)
    assert read_files(tmp_path) == files_before, "the old run is replaced only when the new run begins"
    with contextlib.suppress(RunError), folder:
        (tmp_path / "metrics.jsonl").write_text("new")
        if error is not None:
            raise error
    assert read_files(tmp_path) == files_before
    assert "holds the old run again" in caplog.text


def test_after_a_killed_replacement_the_next_command_restores_the_old_run(tmp_path):
    files_before = write_old_run(tmp_path)
    imports = "import os, signal\nfrom pathlib import Path\nfrom sparring.run.folder import RunFolder\n"
    code = f"RunFolder.create(Path({str(tmp_path)!r}), 'seed: 1', overwrite=True).__enter__()\nos.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", imports + code], check=False).returncode == -signal.SIGKILL
    assert read_files(tmp_path) != files_before
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path, CONFIG)
    assert RunFolder.open(tmp_path).config()["seed"] == 0
    assert read_files(tmp_path) == files_before


def test_a_reader_does_not_disturb_a_replacement_in_progress(tmp_path):
    write_old_run(tmp_path)
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
    call_number, num_calls = 0, [0]
    while num_calls[0] >= call_number:
        call_number += 1
        path = tmp_path / str(call_number)
        with monkeypatch.context() as patch:
            num_calls = raise_at_call(patch, call_number, names=(*DISK_CALLS, "unlink", "rmdir"))
            with contextlib.suppress(KillSignal):
                RunFolder.create(path, CONFIG)
        if not (path / "config.yaml").exists():
            with pytest.raises(RunError, match=r"without --resume|train one with"):
                RunFolder.open(path)
            RunFolder.create(path, CONFIG)
        assert RunFolder.open(path).config()["steps"] == 3
    assert call_number > 4


def test_a_run_without_its_config_is_not_treated_as_new(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(RunError, match=r"config\.yaml is missing"):
        RunFolder.open(tmp_path)


def test_if_several_processes_create_one_run_exactly_one_succeeds(tmp_path):
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


# Run folders of strangers: no file outside of them is written, no read blocks, and errors are SparringErrors.
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
LAST_CHECKPOINT = "checkpoints/step_000002"
DEEPLY_NESTED = "[" * 100_000
HUGE_NUMBER = "1" + "0" * 400


def run_cli(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input="pass\n" * 8)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    result = run_cli("train", "kuhn-tiny", *SETTINGS, "--run", path)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def run(trained_run, tmp_path):
    shutil.copytree(trained_run, tmp_path / "home" / "run")
    (tmp_path / "mine.txt").write_text("mine\n")
    return tmp_path / "home" / "run"


def write_checksums(run):
    path = run / LAST_CHECKPOINT / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in [name for name in manifest["files"] if (run / LAST_CHECKPOINT / name).is_file()]:
        data = (run / LAST_CHECKPOINT / name).read_bytes()
        manifest["files"][name] = [len(data), hashlib.sha256(data).hexdigest()]
    path.write_text(json.dumps(manifest))


def files_outside(run):
    folder = run.parents[1]
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and run not in path.parents}


COMMANDS = {
    "evaluate": lambda run: run_cli("evaluate", run, "--games", 2),
    "report": lambda run: run_cli("report", run),
    "resume": lambda run: run_cli("train", "--run", run, "--resume", "steps=3"),
    "play": lambda run: run_cli("play", run),
    "export": lambda run: run_cli("export", run, run / "exported"),
}


@pytest.mark.parametrize("name", ["../../../x-1", "/tmp/x-1", "past-1/../../x-1", "past-1\n", "", "x"])
def test_a_member_with_an_invalid_name_is_refused(run, name):
    path = run / LAST_CHECKPOINT / "engine.json"
    engine_data = json.loads(path.read_bytes())
    path.write_text(json.dumps({**engine_data, "members": {name: 1}}))
    shutil.copy(run / LAST_CHECKPOINT / "model.safetensors", run.parent / "x-1.safetensors")
    write_checksums(run)
    outside_before = files_outside(run)
    for command in ("resume", "evaluate"):
        result = COMMANDS[command](run)
        assert isinstance(result.exception, CheckpointError) and "names a snapshot" in str(result.exception)
    assert files_outside(run) == outside_before


@pytest.mark.parametrize("name", ["../../../../mine.txt", "/etc/hostname", "a/b"])
def test_a_manifest_may_name_only_files_of_its_folder(run, name):
    path = run / LAST_CHECKPOINT / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = [5, hashlib.sha256(b"mine\n").hexdigest()]
    path.write_text(json.dumps(manifest))
    result = COMMANDS["evaluate"](run)
    assert isinstance(result.exception, CheckpointError) and "not a file name" in str(result.exception)


@pytest.mark.parametrize(
    "name",
    [
        "metrics.jsonl",
        "report.html",
        ".lock",
        ".lock-holder",
        "episodes",
        "tensorboard",
        "checkpoints",
        LAST_CHECKPOINT,
    ],
)
def test_a_link_out_of_the_folder_is_not_followed(run, name):
    if (run / name).is_dir():
        shutil.move(run / name, run.parents[1] / "theirs")
        (run / name).symlink_to(run.parents[1] / "theirs")
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(run.parents[1] / "mine.txt")
    outside_before = files_outside(run)
    for command in ("resume", "report"):
        result = COMMANDS[command](run)
        assert isinstance(result.exception, RunError) and "is a link that leads out of" in str(result.exception)
    result = run_cli("train", "kuhn-tiny", *SETTINGS, "--run", run, "--overwrite")
    assert isinstance(result.exception, RunError)
    assert files_outside(run) == outside_before


def test_a_link_within_the_folder_and_a_link_to_it_are_fine(run):
    (run / "latest").symlink_to(LAST_CHECKPOINT)
    (run.parent / "link").symlink_to(run)
    check_regular_files(run.parent / "link")
    assert COMMANDS["evaluate"](run.parent / "link").exit_code == 0


@pytest.mark.parametrize(
    "name",
    [
        f"{LAST_CHECKPOINT}/manifest.json",
        f"{LAST_CHECKPOINT}/model.safetensors",
        "metrics.jsonl",
        "episodes/part-000009.parquet",
        "extra",
    ],
)
@pytest.mark.parametrize("file_kind", ["pipe", "socket"])
def test_a_pipe_is_refused_before_it_is_opened(run, name, file_kind, monkeypatch):
    (run / name).unlink(missing_ok=True)
    if file_kind == "pipe":
        os.mkfifo(run / name)
    else:
        monkeypatch.chdir((run / name).parent)  # the path of a socket must be short
        socket.socket(socket.AF_UNIX).bind((run / name).name)
    for command in ("evaluate", "report", "resume"):
        result = COMMANDS[command](run)
        assert isinstance(result.exception, RunError) and "a pipe, a socket or a device" in str(result.exception)


def test_a_file_larger_than_the_memory_is_not_read(run):
    with open(run / LAST_CHECKPOINT / "average.safetensors", "r+b") as stream:
        stream.truncate(1 << 42)
    path = run / LAST_CHECKPOINT / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"]["average.safetensors"][0] = 1 << 42
    path.write_text(json.dumps(manifest))
    result = COMMANDS["evaluate"](run)
    assert isinstance(result.exception, CheckpointError) and "larger than this machine's memory" in str(
        result.exception
    )


def test_a_file_with_too_many_values_is_skipped(run, monkeypatch):
    monkeypatch.setattr("sparring.play.parquet_parts.machine_bytes", lambda: 100_000)
    row = pq.read_table(run / "episodes" / "part-000002.parquet").slice(0, 1)
    pq.write_table(pa.concat_tables([row] * 1000).combine_chunks(), run / "episodes" / "part-000009.parquet")
    monkeypatch.setattr(
        "sparring.play.store.episodes_in", lambda table: pytest.fail("was unpacked") if len(table) >= 1000 else iter(())
    )
    assert COMMANDS["report"](run).exit_code == 0


def test_only_the_first_turns_of_a_file_are_checked(run, monkeypatch):
    table_lengths = []
    monkeypatch.setattr("sparring.report.sample_plays.JUDGED_ROWS", 3)
    monkeypatch.setattr("sparring.play.store.episodes_in", lambda table: table_lengths.append(len(table)) or iter(()))
    assert COMMANDS["report"](run).exit_code == 0
    assert set(table_lengths) == {3}


def append_line(name, line):
    return lambda run: (run / name).open("a").write(line + "\n")


def write_text(name, text):
    return lambda run: ((run / name).write_text(text), write_checksums(run))


def change_optimizer_weights(change):
    def replace_weights(run):
        path = run / LAST_CHECKPOINT / "optimizer.safetensors"
        path.write_bytes(safetensors.torch.save(change(safetensors.torch.load(path.read_bytes()))))
        write_checksums(run)

    return replace_weights


@pytest.mark.parametrize(
    ("damage", "commands"),
    [
        (append_line("metrics.jsonl", DEEPLY_NESTED), ("report", "resume")),
        (append_line("metrics.jsonl", f'{{"step": {HUGE_NUMBER}, "legal_rate": 1}}'), ("report", "resume")),
        (
            append_line(
                "metrics.jsonl", f'{{"step": 3, "legal_rate": {HUGE_NUMBER}, "return/a": "x", "nash_conv/k": [1]}}'
            ),
            ("report",),
        ),
        (append_line("metrics.jsonl", '{"step": 1, "return/x": -1e308}\n{"step": 2, "return/x": 1e308}'), ("report",)),
        (
            append_line("metrics.jsonl", '{"step": 3, "match/a/b": 1, "match/": 1, "match/a/b/c/d/e/success": 1}'),
            ("report",),
        ),
        (append_line("health.jsonl", '{"step": 2, "message": ' + DEEPLY_NESTED), ("report",)),
        (append_line("timing.jsonl", '{"step": 2, "seconds/round": "x"}'), ("report",)),
        (append_line("changes.jsonl", '[1]\n{"step": 1, "changes": 7}\n' + DEEPLY_NESTED), ("resume",)),
        (write_text("sparring-run.json", DEEPLY_NESTED), ("report", "evaluate")),
        (write_text(f"{LAST_CHECKPOINT}/engine.json", DEEPLY_NESTED), ("evaluate",)),
        (write_text(f"{LAST_CHECKPOINT}/engine.json", "[1]"), ("evaluate", "resume")),
        (write_text(f"{LAST_CHECKPOINT}/engine.json", '{"version": "x", "members": []}'), ("evaluate",)),
        (write_text(f"{LAST_CHECKPOINT}/engine.json", f'{{"version": {HUGE_NUMBER}, "members": {{}}}}'), ("evaluate",)),
        (write_text(f"{LAST_CHECKPOINT}/state.json", DEEPLY_NESTED), ("evaluate",)),
        (write_text(f"{LAST_CHECKPOINT}/state.json", '{"credit": 5, "curriculum": [1]}'), ("resume",)),
        (write_text(f"{LAST_CHECKPOINT}/state.json", '{"credit": {}, "curriculum": {"kuhn_poker": 7}}'), ("resume",)),
        (lambda run: (run / LAST_CHECKPOINT / "manifest.json").write_text("{}"), ("play",)),
        (lambda run: (run / LAST_CHECKPOINT / "manifest.json").write_text(DEEPLY_NESTED), ("evaluate",)),
        (write_text(f"{LAST_CHECKPOINT}/model.safetensors", "x" * 100), ("export",)),
        (change_optimizer_weights(lambda tensors: {"x.y": torch.zeros(1)}), ("evaluate",)),
        (change_optimizer_weights(lambda tensors: {name: torch.zeros(3) for name in tensors}), ("resume",)),
        (write_text(f"{LAST_CHECKPOINT}/replay.json", "[1]"), ("resume",)),
        (write_text(f"{LAST_CHECKPOINT}/replay.json", DEEPLY_NESTED), ("resume",)),
    ],
)
def test_damage_is_skipped_or_an_error_of_sparring(run, damage, commands):
    damage(run)
    outside_before = files_outside(run)
    for command in commands:
        result = COMMANDS[command](run)
        assert result.exception is None or isinstance(result.exception, SparringError | SystemExit), repr(
            result.exception
        )
    assert files_outside(run) == outside_before


@pytest.mark.parametrize("column", ["seat", "roles", "returns", "oracle_values", "segment_kinds", "legal_actions"])
def test_a_file_of_nulls_is_skipped(run, column):
    table = pq.read_table(run / "episodes" / "part-000002.parquet")
    column_index = table.schema.get_field_index(column)
    nulls = pa.array([None] * len(table), type=table.schema.field(column_index).type)
    pq.write_table(
        table.set_column(column_index, table.schema.field(column_index), nulls),
        run / "episodes" / "part-000009.parquet",
    )
    assert COMMANDS["report"](run).exit_code == 0


def test_lines_and_values_that_are_not_numbers_are_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        f'{{"step": 1, "a": 1.5, "b": null, "c": "x", "d": [1], "e": true, "f": {HUGE_NUMBER}, "g": -1e200}}\n{{"step": true}}\n{{"step": -1}}\n'
    )
    assert read_figures(path) == [{"step": 1, "a": 1.5, "b": None}]
    assert [line["step"] for line in read_lines(path)] == [1]

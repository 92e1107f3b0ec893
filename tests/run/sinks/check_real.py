"""The real packages W&B and trackio in complete, killed and failing runs, tested by `make sinks-test`.

No test needs an account or a network. The file name keeps pytest from collecting it with the other tests.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

SMALL_OVERRIDES = (
    "steps=40",
    "threads=1",
    "rollout.games_per_step=8",
    "store.every=0",
    "checkpoint.every=10",
    "evaluation.every=1000",
    "warmup.updates=1",
)
BOTH_SINKS = "logging.sinks=[wandb, trackio]"
BLOCK_BYTES = 32_768  # bytes per block of W&B's file, in the log format of LevelDB
HEADER_BYTES = 7  # bytes of the file header, and of a record header


def train_command(path, *arguments):
    code = "from sparring.cli import main; main()"
    return [
        sys.executable,
        "-c",
        code,
        "train",
        *(arguments or ("kuhn-tiny", *SMALL_OVERRIDES, BOTH_SINKS)),
        "--run",
        str(path),
    ]


@pytest.fixture
def environment(tmp_path):
    settings = {
        "WANDB_MODE": "online",
        "TRACKIO_SPACE_ID": "someone/space",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HOME": str(tmp_path),
    }
    other_variables = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "TRACKIO"))}
    return {**other_variables, **settings}


def train_run(path, env, *arguments):
    process = subprocess.run(
        train_command(path, *arguments), env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stderr


def read_records(path):
    """Yield the records of a file of W&B, without a truncated last one."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, record = path.read_bytes(), HEADER_BYTES, b""
    while position + HEADER_BYTES <= len(data):
        if BLOCK_BYTES - position % BLOCK_BYTES < HEADER_BYTES:
            position += BLOCK_BYTES - position % BLOCK_BYTES
            continue
        length, record_type = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        if position + HEADER_BYTES + length > len(data):
            return
        record = (record if record_type in (3, 4) else b"") + data[
            position + HEADER_BYTES : position + HEADER_BYTES + length
        ]
        position += HEADER_BYTES + length
        if record_type in (1, 4):
            yield Record.FromString(record)


def wandb_ids_and_rows(run):
    ids, rows = [], []
    for path in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        for record in read_records(path):
            if record.HasField("run"):
                ids.append(record.run.run_id)
            if record.HasField("history"):
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                rows.append((row["_step"], row))
    return ids, rows


def trackio_rows(env, run):
    with sqlite3.connect(os.path.join(env["TRACKIO_DIR"], "sparring.db")) as database:
        cursor = database.execute(
            "SELECT step, metrics FROM metrics WHERE run_id = ? ORDER BY id", (read_journal(run, "trackio")["run"],)
        )
        return [(step, json.loads(row)) for step, row in cursor.fetchall()]


def read_journal(run, name):
    return json.loads((run / "sinks" / f"{name}.jsonl").read_text().splitlines()[0])


def metrics_by_step(run, name="metrics.jsonl"):
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def check_sinks(run, env):
    metrics_of_step = {line.pop("step"): line for line in metrics_by_step(run)}
    ids, rows = wandb_ids_and_rows(run)
    assert set(ids) == {read_journal(run, "wandb")["run"]}
    for sink_rows in (rows, trackio_rows(env, run)):
        assert [step for step, _ in sink_rows] == sorted(metrics_of_step)
        for step, row in sink_rows:
            assert {name: row[name] for name, value in metrics_of_step[step].items() if value is not None} == {
                name: value for name, value in metrics_of_step[step].items() if value is not None
            }
            assert row["seconds/round"] > 0


def test_both_sinks_have_the_metrics_and_send_nothing(tmp_path, environment):
    run = tmp_path / "run"
    stderr = train_run(run, environment)
    check_sinks(run, environment)
    assert "wandb" not in stderr.lower() and "trackio" not in stderr.lower()
    assert not [path for path in run.rglob("*") if path.is_symlink()]
    assert not any("failed_sinks" in line for line in metrics_by_step(run, "timing.jsonl"))


@pytest.mark.parametrize("num_steps_before_kill", [3, 14, 27])
def test_a_killed_and_resumed_run_has_every_step_once(tmp_path, environment, num_steps_before_kill):
    run = tmp_path / "run"
    process = subprocess.Popen(
        train_command(run), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    metrics, deadline = run / "metrics.jsonl", time.monotonic() + 240
    while time.monotonic() < deadline and not (
        metrics.exists() and len(metrics.read_bytes().splitlines()) >= num_steps_before_kill
    ):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)  # the process of W&B completes its file
    train_run(run, environment, BOTH_SINKS, "--resume")
    assert len(metrics_by_step(run)) == 40 and len(list(run.glob("wandb/offline-run-*"))) == 2
    check_sinks(run, environment)


def test_a_failing_sink_is_counted_and_the_run_continues(tmp_path, environment):
    (tmp_path / "trackio").mkdir()
    (tmp_path / "trackio" / "sparring.db").write_bytes(b"no database" * 1000)
    result = subprocess.run(
        train_command(tmp_path / "refused"), env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (
        result.returncode == 2
        and "sink 'trackio' (logging.sinks) failed" in result.stderr
        and "Traceback" not in result.stderr
    )
    (tmp_path / "trackio" / "sparring.db").unlink()
    run = tmp_path / "run"
    process = subprocess.Popen(
        train_command(run), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    metrics, deadline = run / "metrics.jsonl", time.monotonic() + 240
    while time.monotonic() < deadline and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 5):
        time.sleep(0.005)
    for path in (tmp_path / "trackio").iterdir():
        path.unlink()
    (tmp_path / "trackio").rmdir()
    (tmp_path / "trackio").write_text("a file where the folder was")
    stderr = process.communicate(timeout=240)[1]
    assert process.returncode == 0, stderr
    missed_steps = [line["step"] for line in metrics_by_step(run, "timing.jsonl") if line.get("failed_sinks")]
    assert (
        missed_steps
        and missed_steps == list(range(missed_steps[0], 41))
        and "sink 'trackio' (logging.sinks) failed" in stderr
    )
    assert [step for step, _ in wandb_ids_and_rows(run)[1]] == list(range(1, 41))
    assert f"The figures of {len(missed_steps)} steps did not reach a sink" in (run / "report.html").read_text()


def test_online_mode_without_credentials_is_refused_without_a_prompt(tmp_path, environment):
    arguments = ("kuhn-tiny", *SMALL_OVERRIDES, "logging.sinks=[wandb mode=online]")
    process = subprocess.run(
        train_command(tmp_path / "run", *arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert process.returncode == 2 and "there are no credentials; set WANDB_API_KEY" in process.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()

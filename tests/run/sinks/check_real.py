"""W&B and trackio themselves, in runs that are whole, killed, and without them: `make sinks-test`.

Nothing here needs an account or a network. The name of this file keeps it out of the other tests.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

SMALL = (
    "steps=40",
    "threads=1",
    "rollout.games_per_step=8",
    "store.every=0",
    "checkpoint.every=10",
    "evaluation.every=1000",
    "warmup.updates=1",
)
BOTH = "logging.sinks=[wandb, trackio]"
BLOCK = 32_768  # bytes of a block of W&B's file, which is LevelDB's log format
HEADER = 7  # bytes of the file's header, and of a record's


def command(path, *words):
    code = "from sparring.cli import main; main()"
    return [sys.executable, "-c", code, "train", *(words or ("kuhn-tiny", *SMALL, BOTH)), "--run", str(path)]


@pytest.fixture
def surroundings(tmp_path):
    settings = {
        "WANDB_MODE": "online",
        "TRACKIO_SPACE_ID": "someone/space",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HOME": str(tmp_path),
    }
    others = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "TRACKIO"))}
    return {**others, **settings}


def trained(path, env, *words):
    done = subprocess.run(
        command(path, *words), env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def records(path):
    """Yield the records of a file of W&B; a torn last one is left out."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = path.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if at + HEADER + length > len(data):
            return
        whole = (whole if kind in (3, 4) else b"") + data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):
            yield Record.FromString(whole)


def in_wandb(run):
    ids, rows = [], []
    for path in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        for record in records(path):
            if record.HasField("run"):
                ids.append(record.run.run_id)
            if record.HasField("history"):
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                rows.append((row["_step"], row))
    return ids, rows


def in_trackio(env, run):
    with sqlite3.connect(os.path.join(env["TRACKIO_DIR"], "sparring.db")) as database:
        cursor = database.execute(
            "SELECT step, metrics FROM metrics WHERE run_id = ? ORDER BY id", (journal(run, "trackio")["run"],)
        )
        return [(step, json.loads(row)) for step, row in cursor.fetchall()]


def journal(run, name):
    return json.loads((run / "sinks" / f"{name}.jsonl").read_text().splitlines()[0])


def written(run, name="metrics.jsonl"):
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def check(run, env):
    lines = {line.pop("step"): line for line in written(run)}
    ids, rows = in_wandb(run)
    assert set(ids) == {journal(run, "wandb")["run"]}
    for figures in (rows, in_trackio(env, run)):
        assert [step for step, _ in figures] == sorted(lines)
        for step, row in figures:
            assert {name: row[name] for name, value in lines[step].items() if value is not None} == {
                name: value for name, value in lines[step].items() if value is not None
            }
            assert row["seconds/round"] > 0


def test_both_have_the_figures_and_nothing_is_asked_or_sent(tmp_path, surroundings):
    run = tmp_path / "run"
    stderr = trained(run, surroundings)
    check(run, surroundings)
    assert "wandb" not in stderr.lower() and "trackio" not in stderr.lower()
    assert not [path for path in run.rglob("*") if path.is_symlink()]
    assert not any("failed_sinks" in line for line in written(run, "timing.jsonl"))


@pytest.mark.parametrize("after", [3, 14, 27])
def test_a_run_that_is_killed_and_goes_on_is_the_same_run_without_doubled_steps(tmp_path, surroundings, after):
    run = tmp_path / "run"
    process = subprocess.Popen(command(run), env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics, limit = run / "metrics.jsonl", time.monotonic() + 240
    while time.monotonic() < limit and not (metrics.exists() and len(metrics.read_bytes().splitlines()) >= after):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)  # W&B's own process ends its file
    trained(run, surroundings, BOTH, "--resume")
    assert len(written(run)) == 40 and len(list(run.glob("wandb/offline-run-*"))) == 2
    check(run, surroundings)


def test_a_sink_that_breaks_is_counted_and_the_run_goes_on(tmp_path, surroundings):
    (tmp_path / "trackio").mkdir()
    (tmp_path / "trackio" / "sparring.db").write_bytes(b"no database" * 1000)
    done = subprocess.run(
        command(tmp_path / "refused"), env=surroundings, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (
        done.returncode == 2
        and "sink 'trackio' (logging.sinks) failed" in done.stderr
        and "Traceback" not in done.stderr
    )
    (tmp_path / "trackio" / "sparring.db").unlink()
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(run), env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    metrics, limit = run / "metrics.jsonl", time.monotonic() + 240
    while time.monotonic() < limit and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 5):
        time.sleep(0.005)
    for path in (tmp_path / "trackio").iterdir():
        path.unlink()
    (tmp_path / "trackio").rmdir()
    (tmp_path / "trackio").write_text("a file where the folder was")
    stderr = process.communicate(timeout=240)[1]
    assert process.returncode == 0, stderr
    missed = [line["step"] for line in written(run, "timing.jsonl") if line.get("failed_sinks")]
    assert missed and missed == list(range(missed[0], 41)) and "sink 'trackio' (logging.sinks) failed" in stderr
    assert [step for step, _ in in_wandb(run)[1]] == list(range(1, 41))
    assert f"The figures of {len(missed)} steps did not reach a sink" in (run / "report.html").read_text()


def test_online_without_credentials_is_refused_at_once_and_asks_nobody(tmp_path, surroundings):
    words = ("kuhn-tiny", *SMALL, "logging.sinks=[wandb mode=online]")
    done = subprocess.run(
        command(tmp_path / "run", *words),
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2 and "there are no credentials; set WANDB_API_KEY" in done.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()

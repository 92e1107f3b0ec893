"""Checkpoints survive kills and errors during writing, and damage after writing is detected."""

import contextlib
import errno
import json
import multiprocessing
import os

import pytest

from sparring.core import files
from sparring.core.errors import CheckpointError, RunError
from sparring.run import checkpoint
from tests.run.builders import KillSignal, raise_at_call

OLD, NEW = {"a.bin": b"old", "b.bin": b"o" * 100}, {"a.bin": b"new", "b.bin": b"n" * 100}


def writing(step, contents):
    def write(folder):
        for name, data in {**contents, "state.json": json.dumps({"step": step}).encode()}.items():
            files.write_synced(folder / name, data)

    return write


def write(folder, step, contents):
    return checkpoint.save(folder, step, writing(step, contents), keep=2)


def read(folder):
    latest = checkpoint.load_latest(folder)
    return latest.step, {name: (latest.path / name).read_bytes() for name in OLD}, latest.state


def test_only_the_newest_checkpoints_stay(tmp_path):
    assert checkpoint.load_latest(tmp_path) is None
    for step in (1, 2, 3, 4):
        write(tmp_path, step, NEW)
    assert checkpoint.steps(tmp_path) == [3, 4]


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize(
    "error", [KillSignal(), OSError(errno.ENOSPC, "fails"), OSError(errno.EIO, "fails")], ids=["kill", "full", "fault"]
)
def test_a_kill_or_error_at_any_write_leaves_the_old_or_new_checkpoint(tmp_path, monkeypatch, same_step, error):
    at, calls = 0, [0]
    while calls[0] >= at:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        write(folder, 5, OLD)
        with monkeypatch.context() as patch, contextlib.suppress(KillSignal, RunError):
            calls = raise_at_call(patch, at, error)
            write(folder, 5 if same_step else 6, NEW)
        assert read(folder)[1] in (OLD, NEW)
        if isinstance(error, KillSignal):
            write(folder, 7, NEW)
        assert not list((folder / "checkpoints").glob(".tmp-*"))
    assert at > 8  # a save has more than this number of calls


def dies_saving(folder, step, at):
    """Save in a process that is killed at the ``at``-th call of a removal or rename; return whether it was."""

    def save():
        calls = [0]

        def mined(function):
            def call(*args, **kwargs):
                calls[0] += 1
                if calls[0] == at:
                    os._exit(9)
                return function(*args, **kwargs)

            return call

        for name in ("rename", "unlink", "rmdir"):
            setattr(os, name, mined(getattr(os, name)))
        checkpoint.save(folder, step, writing(step, NEW), keep=1)

    process = multiprocessing.get_context("fork").Process(target=save)
    process.start()
    process.join(60)
    return process.exitcode == 9


@pytest.mark.parametrize("step", [5, 6])
def test_half_written_checkpoints_of_a_killed_run_are_removed(tmp_path, step):
    at = 0
    while True:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        write(folder, 5, OLD)
        killed = dies_saving(folder, step, at)
        latest = checkpoint.load_latest(folder)
        assert latest.notes == ()
        for path in (folder / "checkpoints").glob("step_*"):
            assert checkpoint._state(path), path  # every folder named as a checkpoint is complete
        checkpoint.tidy(folder, latest, keep=1)
        assert [path.name for path in (folder / "checkpoints").iterdir()] == [latest.path.name]
        assert read(folder)[1] in (OLD, NEW)
        if not killed:
            break
    assert at > 4


def test_cleaning_does_not_remove_later_damaged_checkpoints(tmp_path):
    for step in (1, 2, 3):
        path = checkpoint.save(tmp_path, step, writing(step, OLD), keep=9)
    (path / "a.bin").write_bytes(b"?")
    checkpoint.tidy(tmp_path, checkpoint.load_latest(tmp_path), keep=1)
    assert checkpoint.steps(tmp_path) == [2, 3]
    checkpoint.tidy(tmp_path, None, keep=1)
    assert checkpoint.steps(tmp_path) == [2, 3]


def test_any_flipped_bit_is_detected_or_changes_nothing(tmp_path):
    write(tmp_path, 1, OLD)
    path = write(tmp_path, 2, NEW)
    for name in (*NEW, "state.json", "manifest.json"):
        data = (path / name).read_bytes()
        for bit_index in range(0, 8 * len(data), 7):
            byte = data[bit_index // 8] ^ 1 << bit_index % 8
            (path / name).write_bytes(data[: bit_index // 8] + bytes([byte]) + data[bit_index // 8 + 1 :])
            assert checkpoint.load_latest(tmp_path).step == 1, (name, bit_index)
        (path / name).write_bytes(data)
    assert read(tmp_path) == (2, NEW, {"step": 2})


@pytest.mark.parametrize(
    "manifest", [[], {"format": 1, "step": 2, "files": []}, {"format": 1, "step": 2, "files": {}}, {"format": 1}, 7]
)
def test_a_malformed_manifest_counts_as_damage(tmp_path, manifest):
    write(tmp_path, 1, OLD)
    (write(tmp_path, 2, NEW) / "manifest.json").write_text(json.dumps(manifest))
    assert checkpoint.load_latest(tmp_path).step == 1


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_later_checkpoints_never_replace_the_valid_one(tmp_path, keep):
    for step in (4, 6, 8):
        path = checkpoint.save(tmp_path, step, writing(step, OLD), keep=9)
        if step > 4:
            (path / "a.bin").write_bytes(b"?")
    checkpoint.save(tmp_path, 5, writing(5, NEW), keep=keep)
    assert read(tmp_path) == (5, NEW, {"step": 5})
    # later checkpoints are damaged, so they are removed
    assert checkpoint.steps(tmp_path) == [4, 5][-keep:]


def test_reading_does_not_disturb_a_concurrent_save(tmp_path, monkeypatch):
    write(tmp_path, 1, OLD)
    rename = os.rename

    def read_meanwhile(*args):
        assert checkpoint.load_latest(tmp_path).step == 1
        return rename(*args)

    monkeypatch.setattr(os, "rename", read_meanwhile)
    write(tmp_path, 2, NEW)
    assert read(tmp_path) == (2, NEW, {"step": 2})


@pytest.mark.parametrize("name", ["a.bin", "b.bin", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path, name, damage):
    write(tmp_path, 1, OLD)
    path = write(tmp_path, 2, NEW) / name
    data = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "truncate" else bytes([data[0] ^ 1]) + data[1:])
    latest = checkpoint.load_latest(tmp_path)
    assert latest.step == 1
    assert "step_000002 is damaged" in latest.notes[0]


def test_if_all_checkpoints_are_damaged_it_is_an_error(tmp_path):
    (write(tmp_path, 1, OLD) / "a.bin").write_bytes(b"?")
    with pytest.raises(CheckpointError, match="--overwrite"):
        checkpoint.load_latest(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = write(tmp_path, 1, OLD) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(CheckpointError, match="format is 99"):
        checkpoint.load_latest(tmp_path)


def test_the_checkpoint_of_a_given_step_is_loaded(tmp_path):
    write(tmp_path, 1, OLD)
    assert checkpoint.load_step(tmp_path, 1).state == {"step": 1}
    with pytest.raises(CheckpointError, match="Available steps: 1"):
        checkpoint.load_step(tmp_path, 7)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_and_loses_no_checkpoint(tmp_path, monkeypatch, code):
    write(tmp_path, 1, OLD)

    def raise_no_space(descriptor):
        raise OSError(code, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raise_no_space)
        with pytest.raises(RunError, match="disk is full"):
            write(tmp_path, 2, NEW)
        with pytest.raises(RunError, match="disk is full"):
            files.write_bytes_atomic(tmp_path / "file", b"data")
    assert read(tmp_path)[0] == 1
    assert not list(tmp_path.rglob(".tmp-*"))
    assert not (tmp_path / "file").exists()


def test_a_folder_without_permission_is_an_error(tmp_path, monkeypatch):
    def raise_not_permitted(*args):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", raise_not_permitted)
    with pytest.raises(RunError, match="cannot be written: Permission denied"):
        files.write_bytes_atomic(tmp_path / "file", b"data")


def test_an_atomic_write_leaves_the_old_or_the_new_contents(tmp_path, monkeypatch):
    path, at, calls = tmp_path / "file", 0, [0]
    while calls[0] >= at:
        at += 1
        path.write_bytes(b"old")
        with monkeypatch.context() as patch, contextlib.suppress(KillSignal):
            calls = raise_at_call(patch, at)
            files.write_bytes_atomic(path, b"new")
        assert path.read_bytes() in (b"old", b"new")
    assert path.read_bytes() == b"new"


def test_metrics_are_on_the_disk_before_their_checkpoint(tmp_path, monkeypatch):
    """After a power failure the run resumes at the checkpoint, so metrics up to its step must be on the disk too."""
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    events, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: events.append(os.path.basename(os.readlink(f"/proc/self/fd/{number}"))) or fsync(number),
    )
    monkeypatch.setattr(os, "rename", lambda old, new: events.append("rename") or rename(old, new))
    write(tmp_path, 1, OLD)
    renamed = events.index("rename")
    assert set(events[:renamed]) >= {
        "metrics.jsonl",
        "a.bin",
        "b.bin",
        "state.json",
        "manifest.json",
        ".tmp-step_000001",
    }
    assert events.index("manifest.json") > max(map(events.index, ("a.bin", "b.bin", "state.json")))
    assert "checkpoints" in events[renamed:]

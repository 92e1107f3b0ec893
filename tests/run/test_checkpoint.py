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

OLD_FILES, NEW_FILES = {"a.bin": b"old", "b.bin": b"o" * 100}, {"a.bin": b"new", "b.bin": b"n" * 100}


def file_writer(step, contents):
    def write_files(folder):
        for name, data in {**contents, "state.json": json.dumps({"step": step}).encode()}.items():
            files.write_synced(folder / name, data)

    return write_files


def save_checkpoint(folder, step, contents):
    return checkpoint.save(folder, step, file_writer(step, contents), keep=2)


def load_newest(folder):
    newest_checkpoint = checkpoint.load_latest(folder)
    return (
        newest_checkpoint.step,
        {name: (newest_checkpoint.path / name).read_bytes() for name in OLD_FILES},
        newest_checkpoint.state,
    )


def test_only_the_newest_checkpoints_stay(tmp_path):
    assert checkpoint.load_latest(tmp_path) is None
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, step, NEW_FILES)
    assert checkpoint.steps(tmp_path) == [3, 4]


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize(
    "error", [KillSignal(), OSError(errno.ENOSPC, "fails"), OSError(errno.EIO, "fails")], ids=["kill", "full", "fault"]
)
def test_a_kill_or_error_at_any_write_leaves_the_old_or_new_checkpoint(tmp_path, monkeypatch, same_step, error):
    call_number, num_calls = 0, [0]
    while num_calls[0] >= call_number:
        call_number += 1
        folder = tmp_path / str(call_number)
        folder.mkdir()
        save_checkpoint(folder, 5, OLD_FILES)
        with monkeypatch.context() as patch, contextlib.suppress(KillSignal, RunError):
            num_calls = raise_at_call(patch, call_number, error)
            save_checkpoint(folder, 5 if same_step else 6, NEW_FILES)
        assert load_newest(folder)[1] in (OLD_FILES, NEW_FILES)
        if isinstance(error, KillSignal):
            save_checkpoint(folder, 7, NEW_FILES)
        assert not list((folder / "checkpoints").glob(".tmp-*"))
    assert call_number > 8  # a save has more than this number of calls


def save_until_killed(folder, step, call_number):
    """Save in a process that is killed at this call of a removal or rename; return whether the call was reached."""

    def save():
        num_calls = [0]

        def exit_or_call(function):
            def counted_call(*args, **kwargs):
                num_calls[0] += 1
                if num_calls[0] == call_number:
                    os._exit(9)
                return function(*args, **kwargs)

            return counted_call

        for name in ("rename", "unlink", "rmdir"):
            setattr(os, name, exit_or_call(getattr(os, name)))
        checkpoint.save(folder, step, file_writer(step, NEW_FILES), keep=1)

    process = multiprocessing.get_context("fork").Process(target=save)
    process.start()
    process.join(60)
    return process.exitcode == 9


@pytest.mark.parametrize("step", [5, 6])
def test_half_written_checkpoints_of_a_killed_run_are_removed(tmp_path, step):
    call_number = 0
    while True:
        call_number += 1
        folder = tmp_path / str(call_number)
        folder.mkdir()
        save_checkpoint(folder, 5, OLD_FILES)
        is_killed = save_until_killed(folder, step, call_number)
        newest_checkpoint = checkpoint.load_latest(folder)
        assert newest_checkpoint.notes == ()
        for path in (folder / "checkpoints").glob("step_*"):
            assert checkpoint._read_state(path), path  # every folder named as a checkpoint is complete
        checkpoint.tidy(folder, newest_checkpoint, keep=1)
        assert [path.name for path in (folder / "checkpoints").iterdir()] == [newest_checkpoint.path.name]
        assert load_newest(folder)[1] in (OLD_FILES, NEW_FILES)
        if not is_killed:
            break
    assert call_number > 4


def test_cleaning_does_not_remove_later_damaged_checkpoints(tmp_path):
    for step in (1, 2, 3):
        path = checkpoint.save(tmp_path, step, file_writer(step, OLD_FILES), keep=9)
    (path / "a.bin").write_bytes(b"?")
    checkpoint.tidy(tmp_path, checkpoint.load_latest(tmp_path), keep=1)
    assert checkpoint.steps(tmp_path) == [2, 3]
    checkpoint.tidy(tmp_path, None, keep=1)
    assert checkpoint.steps(tmp_path) == [2, 3]


def test_any_flipped_bit_is_detected_or_changes_nothing(tmp_path):
    save_checkpoint(tmp_path, 1, OLD_FILES)
    path = save_checkpoint(tmp_path, 2, NEW_FILES)
    for name in (*NEW_FILES, "state.json", "manifest.json"):
        data = (path / name).read_bytes()
        for bit_index in range(0, 8 * len(data), 7):
            byte = data[bit_index // 8] ^ 1 << bit_index % 8
            (path / name).write_bytes(data[: bit_index // 8] + bytes([byte]) + data[bit_index // 8 + 1 :])
            assert checkpoint.load_latest(tmp_path).step == 1, (name, bit_index)
        (path / name).write_bytes(data)
    assert load_newest(tmp_path) == (2, NEW_FILES, {"step": 2})


@pytest.mark.parametrize(
    "manifest", [[], {"format": 1, "step": 2, "files": []}, {"format": 1, "step": 2, "files": {}}, {"format": 1}, 7]
)
def test_a_malformed_manifest_counts_as_damage(tmp_path, manifest):
    save_checkpoint(tmp_path, 1, OLD_FILES)
    (save_checkpoint(tmp_path, 2, NEW_FILES) / "manifest.json").write_text(json.dumps(manifest))
    assert checkpoint.load_latest(tmp_path).step == 1


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_later_checkpoints_never_replace_the_valid_one(tmp_path, keep):
    for step in (4, 6, 8):
        path = checkpoint.save(tmp_path, step, file_writer(step, OLD_FILES), keep=9)
        if step > 4:
            (path / "a.bin").write_bytes(b"?")
    checkpoint.save(tmp_path, 5, file_writer(5, NEW_FILES), keep=keep)
    assert load_newest(tmp_path) == (5, NEW_FILES, {"step": 5})
    # later checkpoints are damaged, so they are removed
    assert checkpoint.steps(tmp_path) == [4, 5][-keep:]


def test_reading_does_not_disturb_a_concurrent_save(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, OLD_FILES)
    rename = os.rename

    def read_and_rename(*args):
        assert checkpoint.load_latest(tmp_path).step == 1
        return rename(*args)

    monkeypatch.setattr(os, "rename", read_and_rename)
    save_checkpoint(tmp_path, 2, NEW_FILES)
    assert load_newest(tmp_path) == (2, NEW_FILES, {"step": 2})


@pytest.mark.parametrize("name", ["a.bin", "b.bin", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path, name, damage):
    save_checkpoint(tmp_path, 1, OLD_FILES)
    path = save_checkpoint(tmp_path, 2, NEW_FILES) / name
    data = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "truncate" else bytes([data[0] ^ 1]) + data[1:])
    newest_checkpoint = checkpoint.load_latest(tmp_path)
    assert newest_checkpoint.step == 1
    assert "step_000002 is damaged" in newest_checkpoint.notes[0]


def test_an_error_is_raised_if_all_checkpoints_are_damaged(tmp_path):
    (save_checkpoint(tmp_path, 1, OLD_FILES) / "a.bin").write_bytes(b"?")
    with pytest.raises(CheckpointError, match="--overwrite"):
        checkpoint.load_latest(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, 1, OLD_FILES) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(CheckpointError, match="format is 99"):
        checkpoint.load_latest(tmp_path)


def test_the_checkpoint_of_a_given_step_is_loaded(tmp_path):
    save_checkpoint(tmp_path, 1, OLD_FILES)
    assert checkpoint.load_step(tmp_path, 1).state == {"step": 1}
    with pytest.raises(CheckpointError, match="Available steps: 1"):
        checkpoint.load_step(tmp_path, 7)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_and_loses_no_checkpoint(tmp_path, monkeypatch, error_number):
    save_checkpoint(tmp_path, 1, OLD_FILES)

    def raise_no_space(descriptor):
        raise OSError(error_number, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raise_no_space)
        with pytest.raises(RunError, match="disk is full"):
            save_checkpoint(tmp_path, 2, NEW_FILES)
        with pytest.raises(RunError, match="disk is full"):
            files.write_bytes_atomic(tmp_path / "file", b"data")
    assert load_newest(tmp_path)[0] == 1
    assert not list(tmp_path.rglob(".tmp-*"))
    assert not (tmp_path / "file").exists()


def test_a_folder_without_permission_is_an_error(tmp_path, monkeypatch):
    def raise_not_permitted(*args):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", raise_not_permitted)
    with pytest.raises(RunError, match="cannot be written: Permission denied"):
        files.write_bytes_atomic(tmp_path / "file", b"data")


def test_an_atomic_write_leaves_the_old_or_the_new_contents(tmp_path, monkeypatch):
    path, call_number, num_calls = tmp_path / "file", 0, [0]
    while num_calls[0] >= call_number:
        call_number += 1
        path.write_bytes(b"old")
        with monkeypatch.context() as patch, contextlib.suppress(KillSignal):
            num_calls = raise_at_call(patch, call_number)
            files.write_bytes_atomic(path, b"new")
        assert path.read_bytes() in (b"old", b"new")
    assert path.read_bytes() == b"new"


def test_metrics_are_on_the_disk_before_their_checkpoint(tmp_path, monkeypatch):
    """After a power failure the run resumes at the checkpoint, so metrics up to its step must be on the disk."""
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    events, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: (
            events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))) or fsync(descriptor)
        ),
    )
    monkeypatch.setattr(os, "rename", lambda old, new: events.append("rename") or rename(old, new))
    save_checkpoint(tmp_path, 1, OLD_FILES)
    rename_index = events.index("rename")
    assert set(events[:rename_index]) >= {
        "metrics.jsonl",
        "a.bin",
        "b.bin",
        "state.json",
        "manifest.json",
        ".tmp-step_000001",
    }
    assert events.index("manifest.json") > max(map(events.index, ("a.bin", "b.bin", "state.json")))
    assert "checkpoints" in events[rename_index:]

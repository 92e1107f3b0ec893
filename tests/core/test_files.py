"""Atomic writes of files, also by several processes at once, and pauses of the garbage collector."""

import gc
import os
import subprocess
import sys

import pytest

from sparring.core import files
from sparring.core.process import paused_collector, settled_heap


def temporary_files(folder):
    return sorted(path.name for path in folder.glob(".tmp-*"))


def test_two_processes_that_write_one_file_do_not_disturb_each_other(tmp_path, monkeypatch):
    """The second process writes the whole file between the write and the rename of the first."""
    path, write_synced, own_pid = tmp_path / "report.html", files.write_synced, os.getpid()

    def write_with_intruder(temporary_path, data):
        write_synced(temporary_path, data)
        if data == b"first":
            monkeypatch.setattr(os, "getpid", lambda: own_pid + 1)
            files.write_bytes_atomic(path, b"second")
            assert path.read_bytes() == b"second"

    monkeypatch.setattr(files, "_is_alive", lambda pid: True)
    monkeypatch.setattr(files, "write_synced", write_with_intruder)
    files.write_bytes_atomic(path, b"first")
    assert path.read_bytes() == b"first"
    assert temporary_files(tmp_path) == []


def test_the_temporary_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path):
    code = f"""
import os
from pathlib import Path
from sparring.core import files
os.replace = lambda *names: os._exit(9)
files.write_bytes_atomic(Path({str(tmp_path)!r}) / "a[1].json", b"half")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert len(temporary_files(tmp_path)) == 1
    unrelated_file = tmp_path / ".tmp-b.json.x-1~"
    unrelated_file.write_text("content of another file")
    files.write_bytes_atomic(tmp_path / "a[1].json", b"whole")
    assert temporary_files(tmp_path) == [unrelated_file.name]


@pytest.fixture(autouse=True)
def unfrozen_collector():
    gc.unfreeze()
    yield
    gc.freeze()


def test_existing_objects_are_frozen_during_the_context_only():
    assert gc.get_freeze_count() == 0
    with settled_heap():
        assert gc.get_freeze_count() > 1000
        with settled_heap():
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() > 1000  # only the outer context gives the objects back
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError), settled_heap():
        raise ValueError
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_restored_after_a_pause(is_enabled):
    (gc.enable if is_enabled else gc.disable)()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()

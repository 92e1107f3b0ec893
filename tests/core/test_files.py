"""Files that are whole or absent, also when several write the same one at once."""

import gc
import os
import subprocess
import sys

import pytest

from sparring.core import files
from sparring.core.process import paused_collector, settled_heap


def leftovers(folder):
    return sorted(path.name for path in folder.glob(".tmp-*"))


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path, monkeypatch):
    """Two evaluations or reports into one folder: the second ends between the first one's write and its rename."""
    path, synced, outer = tmp_path / "report.html", files.write_synced, os.getpid()

    def interrupted(temporary, data):
        synced(temporary, data)
        if data == b"first":
            monkeypatch.setattr(os, "getpid", lambda: outer + 1)
            files.write_bytes_atomic(path, b"second")
            assert path.read_bytes() == b"second"

    monkeypatch.setattr(files, "_is_alive", lambda pid: True)
    monkeypatch.setattr(files, "write_synced", interrupted)
    files.write_bytes_atomic(path, b"first")
    assert path.read_bytes() == b"first"
    assert leftovers(tmp_path) == []


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    code = f"""
import os
from pathlib import Path
from sparring.core import files
os.replace = lambda *names: os._exit(9)
files.write_bytes_atomic(Path({str(tmp_path)!r}) / "a[1].json", b"half")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert len(leftovers(tmp_path)) == 1
    other = tmp_path / ".tmp-b.json.x-1~"
    other.write_text("of another file")
    files.write_bytes_atomic(tmp_path / "a[1].json", b"whole")
    assert leftovers(tmp_path) == [other.name]


@pytest.fixture(autouse=True)
def nothing_set_aside():
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_is_there_is_set_aside_and_given_back():
    assert gc.get_freeze_count() == 0
    with settled_heap():
        assert gc.get_freeze_count() > 1000
        with settled_heap():
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() > 1000  # the inner one leaves it to the outer one
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError), settled_heap():
        raise ValueError
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("on", [True, False])
def test_a_pause_leaves_the_collector_as_it_was(on):
    (gc.enable if on else gc.disable)()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert gc.isenabled() is on
    finally:
        gc.enable()

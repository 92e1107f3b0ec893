"""The folder for what Ray writes: one that a killed run has left is removed when the next one begins. No Ray is needed."""

import os

import pytest

from sparring.engine.workers.fleet import ray


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(ray.tempfile, "tempdir", None)
    monkeypatch.setattr(ray, "len", lambda text: 0, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_what_no_run_locks_is_removed_and_the_rest_stays(place):
    abandoned, named, foreign = (place / name for name in ("sparring-ray-left", "sparring-ray-named", "other"))
    for folder in (abandoned, named, foreign):
        folder.mkdir()
        (folder / "log").write_text("words")
    (named / ray.KEPT).touch()
    (place / "sparring-ray-link").symlink_to(foreign)
    first, lock = ray._make_folder()
    assert first.parent == place
    assert not abandoned.exists()
    second, other = ray._make_folder()
    assert {path.name for path in place.iterdir()} == {
        first.name,
        second.name,
        named.name,
        "other",
        "sparring-ray-link",
    }
    assert (foreign / "log").exists()
    os.close(lock)
    third, last = ray._make_folder()
    assert not first.exists()
    assert second.exists()
    os.close(other)
    os.close(last)
    assert third.exists()


def test_a_folder_of_another_user_stays(place, monkeypatch):
    (place / "sparring-ray-theirs").mkdir()
    monkeypatch.setattr(ray.os, "geteuid", lambda: os.getuid() + 1)
    os.close(ray._make_folder()[1])
    assert (place / "sparring-ray-theirs").exists()

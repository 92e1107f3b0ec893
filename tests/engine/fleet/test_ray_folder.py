"""The temporary folder of Ray: the next run removes what a killed run has left. Ray itself is not needed."""

import os

import pytest

from sparring.engine.workers.fleet import ray


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(ray.tempfile, "tempdir", None)
    monkeypatch.setattr(ray, "len", lambda text: 0, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_only_unlocked_folders_of_ray_are_removed(temporary_folder):
    abandoned, kept_folder, foreign = (
        temporary_folder / name for name in ("sparring-ray-left", "sparring-ray-named", "other")
    )
    for folder in (abandoned, kept_folder, foreign):
        folder.mkdir()
        (folder / "log").write_text("words")
    (kept_folder / ray.KEEP_FILE).touch()
    (temporary_folder / "sparring-ray-link").symlink_to(foreign)
    first_folder, first_lock = ray._make_folder()
    assert first_folder.parent == temporary_folder
    assert not abandoned.exists()
    second_folder, second_lock = ray._make_folder()
    assert {path.name for path in temporary_folder.iterdir()} == {
        first_folder.name,
        second_folder.name,
        kept_folder.name,
        "other",
        "sparring-ray-link",
    }
    assert (foreign / "log").exists()
    os.close(first_lock)
    third_folder, third_lock = ray._make_folder()
    assert not first_folder.exists()
    assert second_folder.exists()
    os.close(second_lock)
    os.close(third_lock)
    assert third_folder.exists()


def test_a_folder_of_another_user_stays(temporary_folder, monkeypatch):
    (temporary_folder / "sparring-ray-theirs").mkdir()
    monkeypatch.setattr(ray.os, "geteuid", lambda: os.getuid() + 1)
    os.close(ray._make_folder()[1])
    assert (temporary_folder / "sparring-ray-theirs").exists()

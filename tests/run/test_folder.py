import os
import subprocess
import sys

import pytest

from sparring.errors import LockedError, RunError
from sparring.run.folder import RunFolder

CONFIG = "name: x\nsteps: 3\nseed: 0\n"


def test_a_new_run(tmp_path):
    folder = RunFolder.create(tmp_path / "deep" / "run", CONFIG)
    assert RunFolder.open(folder.path).config() == {"name": "x", "steps": 3, "seed": 0}


def test_a_missing_run_says_how_to_make_one(tmp_path):
    with pytest.raises(RunError, match="sparring train"):
        RunFolder.open(tmp_path / "nowhere")


def test_a_foreign_folder_is_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(RunError, match="holds no run of ours"):
            RunFolder.create(tmp_path, CONFIG, overwrite=overwrite)
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder.open(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="is a file"):
        RunFolder.create(tmp_path / "run", CONFIG)


def test_an_existing_run_is_overwritten_only_when_asked(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / "metrics.jsonl").write_text("{}")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(RunError, match="--resume"):
        RunFolder.create(tmp_path, CONFIG)
    RunFolder.create(tmp_path, CONFIG, overwrite=True)
    assert not (tmp_path / "metrics.jsonl").exists()
    assert not (tmp_path / "checkpoints").exists()


def test_a_run_goes_on_only_as_itself(tmp_path):
    folder = RunFolder.create(tmp_path, CONFIG)
    folder.check_same_config({"name": "y", "steps": 30, "seed": 0})
    with pytest.raises(RunError, match="seed differ"):
        folder.check_same_config({"name": "x", "steps": 3, "seed": 1})


@pytest.mark.parametrize(("name", "text"), [("sparring-run.json", "{"), ("sparring-run.json", '{"format": 99}'), ("config.yaml", "[1, 2")])
def test_damaged_files_are_said(tmp_path, name, text):
    RunFolder.create(tmp_path, CONFIG)
    (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match=r"damaged|format 99|cannot be read"):
        RunFolder.open(tmp_path).config()


def test_a_second_process_is_kept_out(tmp_path):
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

"""`sparring new`: what it writes passes its own test and trains."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sparring.cli import app
from sparring.scaffold import KINDS

QUICK = ["steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


def new(*words):
    return CliRunner().invoke(app, ["new", *words])


QUICKLY = ("reward", "estimator")  # each kind takes ten seconds


@pytest.mark.parametrize("kind", [kind if kind in QUICKLY else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS])
def test_what_is_written_passes_its_test_and_trains(kind, tmp_path, sparring):
    name, folder = f"own_{kind}", tmp_path / f"own_{kind}"
    done = new(kind, name, "--folder", str(folder))
    assert done.exit_code == 0, done.output
    assert {path.name for path in folder.iterdir()} == {"pyproject.toml", "README.md", f"{name}.py", f"test_{name}.py", "recipe.yaml"}
    assert not any(word in path.read_text() for path in folder.iterdir() for word in ("NAME", "KIND", "sparring.SLOT"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}

    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, env=environment, capture_output=True, text=True)
    assert tested.returncode == 0 and "passed" in tested.stdout, tested.stdout + tested.stderr
    sparring(["train", "recipe.yaml", "--run", "run", *QUICK], ["evaluate", "run", "--games", "2"], cwd=folder, environment=environment)
    start = json.loads((folder / "run" / "provenance.json").read_text())["starts"][0]
    assert list(start["plugins"]) == [name]


def test_the_entry_point_names_the_plug_in(tmp_path):
    import tomllib

    new("matchmaker", "own_pairs", "--folder", str(tmp_path / "x"))
    found = tomllib.loads((tmp_path / "x" / "pyproject.toml").read_text())
    assert found["project"]["entry-points"] == {"sparring.league.matchmakers": {"own_pairs": "own_pairs"}}
    assert found["tool"]["setuptools"]["py-modules"] == ["own_pairs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rewards", "own"], "Did you mean 'reward'"),
        (["reward", "Own"], "cannot name a plug-in"),
        (["reward", "class"], "cannot name a plug-in"),
        (["reward", "../own"], "cannot name a plug-in"),
        (["reward", "json"], "There is a module 'json' already"),
        (["reward", "format_bonus"], "is a name of Sparring's, of Python's"),
        (["environment", "sorted"], "take another name"),
        (["reward", "replace"], "take another name"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new(*words)
    assert done.exit_code != 0 and said in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_it_may_be_written_into_the_empty_folder_one_stands_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new("reward", "own_reward", "--folder", ".").exit_code == 0
    assert len(list(tmp_path.iterdir())) == 5


def test_a_folder_that_holds_something_stays_as_it_is(tmp_path):
    (tmp_path / "x").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    for folder in ("x", "full"):
        done = new("reward", "own_reward", "--folder", str(tmp_path / folder))
        assert "holds something already" in str(done.exception)
    assert (tmp_path / "x").read_text() == (tmp_path / "full" / "file").read_text() == "mine"
    assert new("reward", "own_reward", "--folder", str(tmp_path / "empty")).exit_code == 0

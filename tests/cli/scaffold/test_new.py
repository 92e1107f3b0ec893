"""`sparring new`: what it writes passes its own test and trains."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparring.cli import app
from sparring.cli.scaffold import KINDS
from sparring.config.plugins import outside, registry
from sparring.testing import check_environment, check_picture

QUICK = ["steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


def new(*words):
    return CliRunner().invoke(app, ["new", *words])


def cases(test):
    (names, values) = next((mark.args for mark in getattr(test, "pytestmark", ())), ((), [()]))
    names = names if isinstance(names, tuple) else (names,)
    for value in values:
        yield dict(zip(names, value, strict=True))


@pytest.fixture
def forgotten(monkeypatch):
    monkeypatch.setattr(outside, "_loaded", {})
    registry.clear_caches()
    yield
    registry.clear_caches()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_keeps_what_its_test_says_and_trains(kind, tmp_path, monkeypatch, forgotten):
    name = f"written_{kind}"
    assert new(kind, name, "--folder", str(tmp_path / name)).exit_code == 0
    monkeypatch.syspath_prepend(str(tmp_path / name))
    for module in (name, f"test_{name}"):
        monkeypatch.setitem(sys.modules, module, import_module(module))
    tests = [function for title, function in vars(sys.modules[f"test_{name}"]).items() if title.startswith("test_")]
    assert len(tests) > 1
    for test in tests:
        for arguments in cases(test):
            test(**arguments)
    run, recipe = str(tmp_path / "run"), str(tmp_path / name / "recipe.yaml")
    for words in (["train", recipe, "--run", run, *QUICK], ["evaluate", run, "--games", "2", "--oracle", "none"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output + str(done.exception)
    start = json.loads((tmp_path / "run" / "provenance.json").read_text())["starts"][0]
    assert list(start["plugins"]) == [name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
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
    pyproject = tomllib.loads((tmp_path / "x" / "pyproject.toml").read_text())
    assert pyproject["project"]["entry-points"] == {"sparring.league.matchmakers": {"own_pairs": "own_pairs"}}
    assert pyproject["tool"]["setuptools"]["py-modules"] == ["own_pairs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rewards", "own"], "Did you mean 'reward'"),
        (["reward", "Own"], "cannot name a plug-in"),
        (["reward", "class"], "cannot name a plug-in"),
        (["reward", "../own"], "cannot name a plug-in"),
        (["reward", "json"], "There is a module 'json' already"),
        (["reward", "format_bonus"], "is a name in Sparring, in Python"),
        (["environment", "sorted"], "take another name"),
        (["reward", "replace"], "take another name"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new(*words)
    assert done.exit_code != 0 and message in str(done.exception)
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


EXAMPLES = Path(__file__).parents[3] / "examples"


def test_it_keeps_the_contract_in_forty_lines_and_so_does_its_picture(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from matching import matching

    check_environment(matching)
    assert len((EXAMPLES / "matching.py").read_text().splitlines()) <= 40
    from matching_drawn import Drawn, matching_drawn

    check_environment(matching_drawn)
    assert check_picture(matching_drawn) > 0
    play = Drawn().reset(None)
    assert play.draw(0).count(">?<") == 2
    play.step({0: "heads", 1: "tails"})
    assert ">heads<" in play.draw(0) and play.described(0) == "left said heads, right said tails."


def test_it_trains_is_measured_and_is_played(tmp_path, sparring):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])}

    folder = str(tmp_path / "run")
    _, measured, played, episodes, _, _ = sparring(
        ["train", "kuhn-tiny", *QUICK, "store.every=1", "environments=[{name: matching.matching}]", "--run", folder],
        ["evaluate", folder, "--opponent", "random", "--games", "6", "--json"],
        (["play", folder, "--seed", "1"], "heads\nn\n"),
        ["show", folder],
        ["report", folder],
        ["export", folder, str(tmp_path / "exported")],
        cwd=tmp_path,
        environment=environment,
    )
    assert {row["role"] for row in json.loads(measured)["matches"]} == {"left", "right"}
    assert "Legal actions: heads, tails" in played and "You " in played.partition("The end.")[2] and "heads" in played
    assert "left (learner)" in episodes
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "exported" / "config.json").exists()

"""`sparring new` writes a plug-in that passes its generated test and trains; and the example environment `matching`."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sparring.cli.scaffold import KINDS
from sparring.config.plugins import outside, registry
from sparring.testing import check_environment, check_picture
from tests.cli.builders import call, succeed

QUICK = ["steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


def run_new(*words):
    return call("new", *words)


def cases_of(test):
    (names, values) = next((mark.args for mark in getattr(test, "pytestmark", ())), ((), [()]))
    names = names if isinstance(names, tuple) else (names,)
    for value in values:
        yield dict(zip(names, value, strict=True))


@pytest.fixture
def no_plugins_loaded(monkeypatch):
    monkeypatch.setattr(outside, "_loaded", {})
    registry.clear_caches()
    yield
    registry.clear_caches()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plug_in_passes_its_generated_test_and_trains(kind, tmp_path, monkeypatch, no_plugins_loaded):
    name, folder = f"written_{kind}", tmp_path / f"written_{kind}"
    assert run_new(kind, name, "--folder", str(folder)).exit_code == 0
    assert {path.name for path in folder.iterdir()} == {
        "pyproject.toml",
        "README.md",
        f"{name}.py",
        f"test_{name}.py",
        "recipe.yaml",
    }
    assert not any(word in path.read_text() for path in folder.iterdir() for word in ("NAME", "KIND", "sparring.SLOT"))
    monkeypatch.syspath_prepend(str(folder))
    for module in (name, f"test_{name}"):
        monkeypatch.setitem(sys.modules, module, import_module(module))
    tests = [function for title, function in vars(sys.modules[f"test_{name}"]).items() if title.startswith("test_")]
    assert len(tests) > 1
    for test in tests:
        for arguments in cases_of(test):
            test(**arguments)
    succeed("train", folder / "recipe.yaml", "--run", tmp_path / "run", *QUICK)
    succeed("evaluate", tmp_path / "run", "--games", 2, "--oracle", "none")
    start = json.loads((tmp_path / "run" / "provenance.json").read_text())["starts"][0]
    assert list(start["plugins"]) == [name]


def test_the_entry_point_names_the_plug_in(tmp_path):
    import tomllib

    run_new("matchmaker", "own_pairs", "--folder", str(tmp_path / "x"))
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
def test_a_name_that_cannot_be_used_is_refused_and_no_file_is_written(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = run_new(*words)
    assert outcome.exit_code != 0 and message in str(outcome.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_plug_in_can_be_written_into_the_empty_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_new("reward", "own_reward", "--folder", ".").exit_code == 0
    assert len(list(tmp_path.iterdir())) == 5


def test_a_folder_that_is_not_empty_is_not_changed(tmp_path):
    (tmp_path / "x").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    for folder in ("x", "full"):
        outcome = run_new("reward", "own_reward", "--folder", str(tmp_path / folder))
        assert "is not empty" in str(outcome.exception)
    assert (tmp_path / "x").read_text() == (tmp_path / "full" / "file").read_text() == "mine"
    assert run_new("reward", "own_reward", "--folder", str(tmp_path / "empty")).exit_code == 0


EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_example_matching_has_forty_lines_and_passes_the_public_checks(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from matching import matching

    check_environment(matching)
    assert len((EXAMPLES / "matching.py").read_text().splitlines()) <= 40
    from matching_drawn import Drawn, matching_drawn
    from sums import sums

    check_environment(sums)

    check_environment(matching_drawn)
    assert check_picture(matching_drawn) > 0
    play = Drawn().reset(None)
    assert play.draw(0).count(">?<") == 2
    play.step({0: "heads", 1: "tails"})
    assert ">heads<" in play.draw(0) and play.described(0) == "left chose heads, right chose tails."


def test_the_example_matching_is_trained_evaluated_and_played(tmp_path, monkeypatch, no_plugins_loaded):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    folder = tmp_path / "run"
    succeed("train", "kuhn-tiny", *QUICK, "store.every=1", "environments=[{name: matching.matching}]", "--run", folder)
    report = succeed("evaluate", folder, "--opponent", "random", "--games", 6, "--json").stdout
    assert {row["role"] for row in json.loads(report)["matches"]} == {"left", "right"}
    transcript = succeed("play", folder, "--seed", 1, text="heads\nn\n").stdout
    assert (
        "Legal actions: heads, tails" in transcript
        and "You " in transcript.partition("The end.")[2]
        and "heads" in transcript
    )
    assert "left (learner)" in succeed("show", folder).stdout
    succeed("report", folder)
    succeed("export", folder, tmp_path / "exported")
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "exported" / "config.json").exists()

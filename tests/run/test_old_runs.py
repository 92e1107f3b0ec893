"""Run folders of past versions: what they hold is read, and they can be measured, exported, reported on and gone on with.

tests/data/run_v0 was written at 54ba71c by

    sparring train kuhn-tiny threads=1 steps=2 rollout.games_per_step=4 rollout.in_flight=8 model.hidden_size=8 model.layers=1
        model.heads=2 evaluation.every=2 warmup.updates=1 warmup.games=4 store.every=1 checkpoint.every=1 checkpoint.keep=1
        'environments.0.oracle={name: cfr}' rollout.playouts=1 rollout.top_p=0.9 'replay={name: r3}' environments.0.illegal.rule=retry

less what tells of the machine (provenance, timing, tensorboard).
"""

import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import sparring
from sparring.cli import app

OLD = Path(__file__).parent.parent / "data"
RUNS = sorted(path.name for path in OLD.glob("run_*"))


@pytest.fixture(params=RUNS)
def run(request, tmp_path):
    shutil.copytree(OLD / request.param, tmp_path / "run")
    return tmp_path / "run"


def call(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.output


def test_an_old_run_is_read(run):
    found = sparring.load_run(run)
    assert found.step == 2 and len(found.metrics()) == 2
    episodes = found.episodes()
    assert [step for step, _ in episodes] == [1] * 4 + [2] * 4
    assert len(sparring.turn_table([episode for _, episode in episodes]).reward)


def test_an_old_run_is_measured_exported_and_reported_on(run, tmp_path):
    assert "NashConv" in call("evaluate", run, "--games", 2, "--opponent", "random")
    call("export", run, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()
    call("report", run)
    assert (run / "report.html").stat().st_size > 1000


def test_an_old_run_goes_on_beside_its_old_files(run):
    text = (run / "config.yaml").read_text()
    call("train", run / "config.yaml", "steps=3", "--run", run, "--resume")
    after = (run / "config.yaml").read_text()
    assert "steps: 2" in text and "steps: 3" in after
    assert "keep" not in yaml.safe_load(text)["store"] and yaml.safe_load(after)["store"]["keep"] == 0, "nothing stored is removed"
    episodes = sparring.load_run(run).episodes()
    assert {step: episode.environment is not None for step, episode in episodes} == {1: False, 2: False, 3: True}

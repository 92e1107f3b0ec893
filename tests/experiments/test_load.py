"""A run folder back to a model that plays, also while its trainer is at work."""

import shutil

import pytest

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.errors import CheckpointError, RunError
from sparring.experiments.load import load_run
from sparring.recipe import to_yaml
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

CONFIG = {
    "environments": [{"name": "kuhn_poker"}],
    "steps": 3,
    "threads": 1,
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"exact": False},
    "checkpoint": {"every": 1, "keep": 2},
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("done") / "run", resolve(CONFIG)
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    return path


@pytest.fixture
def trained(done, tmp_path):
    return shutil.copytree(done, tmp_path / "run")


def weights(path, step):
    return (path / "checkpoints" / f"step_{step:06d}" / "model.safetensors").read_bytes()


def test_the_newest_or_the_one_asked_for(trained, saved):
    config, engine, step = load_run(trained)
    assert (config, step) == (resolve(CONFIG), 3)
    assert saved(engine)["model.safetensors"] == weights(trained, 3)
    _, engine, step = load_run(trained, 2)
    assert step == 2
    assert saved(engine)["model.safetensors"] == weights(trained, 2) != weights(trained, 3)


def test_a_damaged_one_is_passed_over_or_refused_when_asked_for(trained):
    (trained / "checkpoints" / "step_000003" / "model.safetensors").write_bytes(b"?")
    assert load_run(trained)[2] == 2
    with pytest.raises(CheckpointError, match="Steps to be had"):
        load_run(trained, 3)


def test_reading_changes_nothing(trained):
    def everything():
        return {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}

    before = everything()
    load_run(trained)
    assert everything() == before


def test_a_run_without_a_checkpoint_says_what_to_do(tmp_path):
    RunFolder.create(tmp_path / "run", to_yaml(resolve(CONFIG)))
    with pytest.raises(RunError, match="--resume"):
        load_run(tmp_path / "run")
    with pytest.raises(RunError, match="no run folder"):
        load_run(tmp_path / "nowhere")


def move_on(path, step):
    """Do what a trainer does: save the next checkpoint and remove those that are too old."""
    old = checkpoint.load_latest(path)
    files = {file.name: file.read_bytes() for file in old.path.iterdir() if file.name != checkpoint.MANIFEST}
    checkpoint.save(path, step, lambda folder: [(folder / name).write_bytes(data) for name, data in files.items()], keep=1)


def test_a_trainer_that_removes_the_checkpoint_being_loaded_costs_nothing(trained, monkeypatch, saved):
    restore, steps = LocalEngine.restore, iter((4, 5))

    def slow(engine, folder):
        if (step := next(steps, None)) is not None:
            move_on(trained, step)
        restore(engine, folder)

    monkeypatch.setattr(LocalEngine, "restore", slow)
    _, engine, step = load_run(trained)
    assert step == 5
    assert saved(engine)["model.safetensors"] == weights(trained, 5)


def test_a_trainer_that_removes_all_checkpoints_listed_costs_nothing(trained, monkeypatch):
    found, steps = checkpoint._found, iter((4, 5))

    def slow(root):
        entries = found(root)
        if (step := next(steps, None)) is not None:
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "_found", found)
                move_on(trained, step)
        return entries

    monkeypatch.setattr(checkpoint, "_found", slow)
    assert checkpoint.load_latest(trained).step == 5


def test_a_checkpoint_that_stays_and_cannot_be_loaded_is_an_error(trained, monkeypatch):
    def broken(engine, folder):
        raise CheckpointError("cannot be loaded")

    monkeypatch.setattr(LocalEngine, "restore", broken)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_run(trained)

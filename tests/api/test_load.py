"""A run folder back to a model that plays, also while its trainer is at work."""

import json
import shutil

import pytest

from sparring.api.load import load_answer, load_run
from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import CheckpointError, ConfigError, ModelError, RunError
from sparring.core.files import file_digest
from sparring.engine.local import LocalEngine
from sparring.learn.weight_files import save_weights
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.run_with_members import run_of

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


def test_the_newest_or_the_one_asked_for_is_read_and_nothing_changed(trained, saved):
    config, engine, step = load_run(trained)
    assert (config, step) == (resolve(CONFIG), 3)
    assert saved(engine)["model.safetensors"] == weights(trained, 3)
    _, engine, step = load_run(trained, 2)
    assert step == 2
    assert saved(engine)["model.safetensors"] == weights(trained, 2) != weights(trained, 3)

    def everything():
        return {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}

    before = everything()
    load_run(trained)
    assert everything() == before
    (trained / "checkpoints" / "step_000003" / "model.safetensors").write_bytes(b"?")
    assert load_run(trained)[2] == 2
    with pytest.raises(CheckpointError, match="Available steps"):
        load_run(trained, 3)


def test_a_run_without_a_checkpoint_or_member_says_what_to_do(tmp_path, population):
    RunFolder.create(tmp_path / "run", to_yaml(resolve(CONFIG)))
    with pytest.raises(RunError, match="--resume"):
        load_run(tmp_path / "run")
    with pytest.raises(RunError, match="no run folder"):
        load_run(tmp_path / "nowhere")
    (population / "checkpoints" / "step_000002" / "past-000001.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"past-000001.safetensors.*Start anew with"):
        load_run(population)


@pytest.fixture
def population(tmp_path):
    return run_of(tmp_path / "population")[0]


def test_a_member_of_another_model_is_refused(population):
    folder = population / "checkpoints" / "step_000002"
    other = LocalEngine(resolve({**CONFIG, "model": {**CONFIG["model"], "hidden_size": 16}}))
    save_weights(other.model, folder / "past-000001.safetensors")
    manifest = folder / checkpoint.MANIFEST  # written anew, as if the file had been saved so
    data = json.loads(manifest.read_text())
    data["files"] = {name: [(folder / name).stat().st_size, file_digest(folder / name)] for name in data["files"]}
    manifest.write_text(json.dumps(data))
    with pytest.raises(ModelError, match="of another model"):
        load_run(population)


def test_a_solver_of_two_teams_is_refused_for_three(tmp_path):
    path, engine = run_of(tmp_path / "three", environments=[{"name": "kuhn_poker", "options": {"players": 3}}])
    with pytest.raises(
        ConfigError,
        match="The answer 'nash': the meta-solver 'nash' is for two teams, and 'kuhn_poker' has 3; write alpha_rank",
    ):
        load_answer(path, engine.config, engine, 2, "nash")
    assert load_answer(path, engine.config, engine, 2, "alpha_rank").members


def move_on(path, step):
    """Do what a trainer does: save the next checkpoint and remove those that are too old."""
    old = checkpoint.load_latest(path)
    files = {file.name: file.read_bytes() for file in old.path.iterdir() if file.name != checkpoint.MANIFEST}
    checkpoint.save(
        path, step, lambda folder: [(folder / name).write_bytes(data) for name, data in files.items()], keep=1
    )


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
    original, steps = checkpoint._checkpoints_in, iter((4, 5))

    def slow(root):
        entries = original(root)
        if (step := next(steps, None)) is not None:
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "_checkpoints_in", original)
                move_on(trained, step)
        return entries

    monkeypatch.setattr(checkpoint, "_checkpoints_in", slow)
    assert checkpoint.load_latest(trained).step == 5


def test_a_checkpoint_that_stays_and_cannot_be_loaded_is_an_error(trained, monkeypatch):
    def broken(engine, folder):
        raise CheckpointError("cannot be loaded")

    monkeypatch.setattr(LocalEngine, "restore", broken)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_run(trained)

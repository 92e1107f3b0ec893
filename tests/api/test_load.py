"""load_run reads a run folder, also while its trainer saves and removes checkpoints."""

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
def finished_run(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("done") / "run", resolve(CONFIG)
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    return path


@pytest.fixture
def run_path(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def weights(path, step):
    return (path / "checkpoints" / f"step_{step:06d}" / "model.safetensors").read_bytes()


def test_the_newest_or_the_named_checkpoint_is_read_and_no_file_changes(run_path, saved):
    config, engine, step = load_run(run_path)
    assert (config, step) == (resolve(CONFIG), 3)
    assert saved(engine)["model.safetensors"] == weights(run_path, 3)
    _, engine, step = load_run(run_path, 2)
    assert step == 2
    assert saved(engine)["model.safetensors"] == weights(run_path, 2) != weights(run_path, 3)

    def read_all_files():
        return {path: path.read_bytes() for path in run_path.rglob("*") if path.is_file()}

    files_before = read_all_files()
    load_run(run_path)
    assert read_all_files() == files_before
    (run_path / "checkpoints" / "step_000003" / "model.safetensors").write_bytes(b"?")
    assert load_run(run_path)[2] == 2
    with pytest.raises(CheckpointError, match="Available steps"):
        load_run(run_path, 3)


def test_a_run_without_a_checkpoint_or_member_is_refused_with_advice(tmp_path, population):
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


def test_a_league_member_with_another_architecture_is_refused(population):
    folder = population / "checkpoints" / "step_000002"
    wider_engine = LocalEngine(resolve({**CONFIG, "model": {**CONFIG["model"], "hidden_size": 16}}))
    save_weights(wider_engine.model, folder / "past-000001.safetensors")
    manifest = folder / checkpoint.MANIFEST  # with the new digest, so that only the shape is wrong
    data = json.loads(manifest.read_text())
    data["files"] = {name: [(folder / name).stat().st_size, file_digest(folder / name)] for name in data["files"]}
    manifest.write_text(json.dumps(data))
    with pytest.raises(ModelError, match="of another model"):
        load_run(population)


def test_a_meta_solver_for_two_teams_is_refused_for_three(tmp_path):
    path, engine = run_of(tmp_path / "three", environments=[{"name": "kuhn_poker", "options": {"players": 3}}])
    with pytest.raises(
        ConfigError,
        match="The answer 'nash': the meta-solver 'nash' is for two teams, and 'kuhn_poker' has 3; write alpha_rank",
    ):
        load_answer(path, engine.config, engine, 2, "nash")
    assert load_answer(path, engine.config, engine, 2, "alpha_rank").members


def save_next_checkpoint(path, step):
    """Save a copy of the newest checkpoint with this step number and remove older checkpoints, as a trainer does."""
    newest_checkpoint = checkpoint.load_latest(path)
    files = {
        file.name: file.read_bytes() for file in newest_checkpoint.path.iterdir() if file.name != checkpoint.MANIFEST
    }
    checkpoint.save(
        path, step, lambda folder: [(folder / name).write_bytes(data) for name, data in files.items()], keep=1
    )


def test_if_a_checkpoint_is_removed_the_next_is_loaded(run_path, monkeypatch, saved):
    restore, steps = LocalEngine.restore, iter((4, 5))

    def saving_meanwhile(engine, folder):
        if (step := next(steps, None)) is not None:
            save_next_checkpoint(run_path, step)
        restore(engine, folder)

    monkeypatch.setattr(LocalEngine, "restore", saving_meanwhile)
    _, engine, step = load_run(run_path)
    assert step == 5
    assert saved(engine)["model.safetensors"] == weights(run_path, 5)


def test_if_all_listed_checkpoints_are_removed_they_are_listed_again(run_path, monkeypatch):
    original_function, steps = checkpoint._checkpoints_in, iter((4, 5))

    def saving_meanwhile(root):
        entries = original_function(root)
        if (step := next(steps, None)) is not None:
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "_checkpoints_in", original_function)
                save_next_checkpoint(run_path, step)
        return entries

    monkeypatch.setattr(checkpoint, "_checkpoints_in", saving_meanwhile)
    assert checkpoint.load_latest(run_path).step == 5


def test_a_checkpoint_that_cannot_be_loaded_is_an_error(run_path, monkeypatch):
    def failing_restore(engine, folder):
        raise CheckpointError("cannot be loaded")

    monkeypatch.setattr(LocalEngine, "restore", failing_restore)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_run(run_path)

"""Files of a league's members that are gone, cut short or of another model when a run goes on."""

import json
import shutil

import pytest
import safetensors.torch

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import CheckpointError, ModelError
from sparring.core.files import file_digest
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

CONFIG = {
    "steps": 4, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "matchmaker": {"name": "by_tag", "past": {"any": 0.5}},
    "league": {"every": 1, "keep": 4, "start": True, "learners": {"main": {}, "counter": {}}}, "credit": {"name": "rae"},
    "evaluation": {"every": 9, "exact": False}, "checkpoint": {"every": 1, "keep": 2},
}
EARLY, LATE = "past-counter-000001.safetensors", "past-000004.safetensors"  # in both checkpoints, and in the newest alone


def run(path, *, resume=False, **changes):
    config = resolve({**CONFIG, **changes})
    with RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config)) as folder:
        return train(config, LocalEngine(config), folder, resume=resume)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "run"
    run(path)
    return path


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def newest(path):
    return path / "checkpoints" / "step_000004"


def all_with(path, name):
    return [one / name for one in (path / "checkpoints").iterdir() if (one / name).exists()]


def replaced(path, data):
    """Put other bytes into a file of the newest checkpoint, and say so in its manifest: as if it had been saved so."""
    path.unlink()  # it is one file with that of the checkpoint before
    path.write_bytes(data)
    manifest = path.parent / checkpoint.MANIFEST
    told = json.loads(manifest.read_text())
    told["files"][path.name] = [len(data), file_digest(path)]
    manifest.write_text(json.dumps(told))


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_member_of_the_newest_checkpoint_costs_a_step_alone(made, folder, damage):
    path = newest(folder) / LATE
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    found = checkpoint.load_latest(folder)
    assert found.step == 3 and LATE in found.notes[0]
    run(folder, resume=True)
    expected, ended = contents(newest(made)), contents(newest(folder))
    assert ended == expected
    assert (folder / "metrics.jsonl").read_bytes() == (made / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(("damage", "said"), [("gone", "is missing"), ("cut", "has changed")])
def test_a_member_damaged_in_all_checkpoints_is_named_and_nothing_is_touched(folder, damage, said):
    for path in all_with(folder, EARLY):
        data = path.read_bytes()
        path.unlink()
        if damage == "cut":
            path.write_bytes(data[: len(data) // 2])
    before = contents(folder)
    with pytest.raises(CheckpointError, match=f"step_000004 is damaged .{EARLY} {said}"):
        run(folder, resume=True)
    assert contents(folder) == before


def test_a_member_of_another_shape_is_named_and_nothing_is_touched(folder):
    """As of a model of another width, or a tokenizer of another size."""
    path = newest(folder) / EARLY
    tensors = safetensors.torch.load_file(path)
    name = next(key for key, value in tensors.items() if value.ndim == 2)
    replaced(path, safetensors.torch.save({**tensors, name: tensors[name][:-1].clone()}))
    before = contents(folder)
    with pytest.raises(ModelError, match=f"member past-counter-000001 .*{EARLY}: These weights are of another model: .*{name}"):
        run(folder, resume=True)
    assert contents(folder) == before


def test_a_member_that_is_no_file_of_weights_is_named_and_nothing_is_touched(folder):
    replaced(newest(folder) / EARLY, b"no weights")
    before = contents(folder)
    with pytest.raises(CheckpointError, match=f"member past-counter-000001 .*{EARLY}: Error while deserializing"):
        run(folder, resume=True)
    assert contents(folder) == before


def test_a_member_whose_file_was_never_saved_is_named(folder):
    """The record names it, the manifest does not."""
    record = newest(folder) / "engine.json"
    told = json.loads(record.read_text())
    told["policies"]["counter"]["members"]["past-counter-000077"] = 77
    replaced(record, json.dumps(told).encode())
    with pytest.raises(CheckpointError, match=r"member past-counter-000077 .*past-counter-000077.safetensors: No such file"):
        run(folder, resume=True)

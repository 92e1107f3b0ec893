"""How many games are asked at once changes no byte of a run with one thread."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

RECIPES = {
    "kuhn-tiny": ["steps=4", "rollout.games_per_step=48", "learner.minibatches=1"],
    "leduc-tiny": ["steps=3", "rollout.games_per_step=24", "learner.minibatches=1", "rollout.max_new_tokens=3"],
    "tictactoe-tiny": ["steps=2", "rollout.games_per_step=24", "learner.minibatches=1", "league.every=1"],
}


def played(path, recipe, number):
    changes = [*RECIPES[recipe], "threads=1", "evaluation.exact=false", "store.every=1", f"rollout.in_flight={number}"]
    config = resolve(apply_overrides(load_recipe(recipe), changes))
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    stored = {file.name: file.read_bytes() for name in ("episodes", "credit") for file in (path / name).iterdir()}
    weights = checkpoint.load_latest(path).path / "model.safetensors"
    return stored, (path / "metrics.jsonl").read_bytes(), weights.read_bytes()


@pytest.mark.parametrize("recipe", RECIPES)
def test_how_many_games_are_in_flight_changes_no_byte(tmp_path, recipe):
    few, many = (played(tmp_path / str(number), recipe, number) for number in (7, 4096))
    assert few == many
    assert len(few[0]) > 1

"""A fixture that trains a small run, with or without workers, and returns its final files and timing."""

import json
from types import SimpleNamespace

import pytest

from sparring.config import resolve
from sparring.config.plugins.guard import CallWatch
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import run_workers
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.engine.fleet.faulty_runs import wrapped_fleet

SMALL_OVERRIDES = (
    *("threads=1", "warmup.updates=0", "rollout.games_per_step=64", "evaluation.exact=false", "scale.unit_games=8"),
    *("model.hidden_size=16", "model.layers=1", "model.heads=2"),
)


def train_kuhn(path, *overrides, wrap_fleet=None):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*SMALL_OVERRIDES, *overrides]))
    engine = LocalEngine(config)
    with (
        RunFolder.create(path, to_yaml(config)) as folder,
        CallWatch(config.call_seconds),
        wrapped_fleet(wrap_fleet),
        run_workers(engine, path),
    ):
        train(config, engine, folder)
    weights = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.glob("*.safetensors")}
    timing = [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()]
    return SimpleNamespace(bytes=(weights, (path / "metrics.jsonl").read_bytes()), timing=timing)


@pytest.fixture(scope="session")
def train_kuhn_run():
    return train_kuhn

"""Nothing that is not finite reaches the weights or a checkpoint: the run stops and says where, why and what is left."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy
import torch

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import DivergedError
from sparring.engine.local import LocalEngine
from sparring.learn import gradient_step
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

CONFIG = {
    "steps": 6, "threads": 1, "environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 8, "group_size": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "evaluation": {"exact": False}, "checkpoint": {"every": 1}, "store": {"every": 0},
}


def stopped(path, **keys):
    """Train until the run stops; return what it says. All that is saved is gradient_step."""
    config = resolve({**CONFIG, **keys})
    with pytest.raises(DivergedError) as caught, RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    for file in path.rglob("*.safetensors"):
        assert all(np.isfinite(tensor).all() for tensor in safetensors.numpy.load_file(file).values())
    return str(caught.value)


def schedule(first, then):
    return {"schedule": "staircase", "values": [first, then], "at": [0.5]}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"learner": {"average": 0.9}, "matchmaker": {"name": "mixed", "past": 0.5}, "league": {"every": 1}},
        {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]},
        {"credit": {"name": "oprl", "beta": 0.5}, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]},
    ],
    ids=["plain", "average and league", "critic", "reward model"],
)
@pytest.mark.parametrize("rate", [1e38])
def test_a_learning_rate_beyond_all_bounds_stops_the_run(tmp_path, keys, rate):
    learner = {**keys.get("learner", {}), "learning_rate": schedule(0.001, rate)}
    message = stopped(tmp_path / "run", **{**keys, "learner": learner})
    assert f"Met in step 4 of 6, where learner.learning_rate is {rate:g}." in message
    assert f"The checkpoint of step 3 is good: {tmp_path / 'run' / 'checkpoints' / 'step_000003'}." in message
    assert checkpoint.steps(tmp_path / "run") == [2, 3]


def test_the_warm_up_is_watched_too(tmp_path):
    message = stopped(tmp_path / "run", warmup={"updates": 3, "games": 4, "learning_rate": 1e38})
    assert "Met in the warm-up. No checkpoint had been saved." in message


def test_a_sum_that_is_too_large_is_told_from_a_loss_that_is(tmp_path):
    message = stopped(tmp_path / "run", losses=[{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": schedule(0.01, 3.3e38)}])
    assert "their weighted sum is not" in message and "The checkpoint of step 3 is good" in message


@pytest.mark.parametrize(
    ("columns", "values", "said"),
    [
        ({}, math.nan, r"losses.1 \('mine'\) gives what is not finite"),
        ({"logprobs": math.nan}, 1.0, "the model's own log-probabilities"),
        ({"sampler_logprobs": -math.inf}, 1.0, "of the sampler"),
        ({"advantages": math.inf}, 1.0, "advantages are too large"),
    ],
)
def test_the_cause_of_a_loss_that_is_not_finite_is_named(columns, values, said):
    filled = {name: torch.full((3,), columns.get(name, 1.0)) for name in ("logprobs", "sampler_logprobs", "advantages")}
    batch = SimpleNamespace(**filled)

    def loss(name, value):
        call = SimpleNamespace(plugin=SimpleNamespace(name=name))
        term = SimpleNamespace(values=torch.full((3,), value))
        return SimpleNamespace(bound=type("Bound", (), {"plugin": call.plugin, "__call__": lambda self, *a, **k: term})(), weight=lambda p: 1.0)

    losses = [loss("ppo_clip", 1.0), loss("mine", values)]
    with pytest.raises(DivergedError, match=said):
        gradient_step.finite_loss(torch.tensor(math.nan), batch, losses, 0.0)
    assert gradient_step.finite_loss(torch.tensor(2.0), batch, losses, 0.0) == 2.0


def test_a_gradient_that_is_not_finite_changes_nothing(saved):
    engine = LocalEngine(resolve(CONFIG))
    model, optimizer = engine.model, engine.learner.optimizer
    before = saved(engine)
    for wrong in (math.nan, math.inf):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, wrong)
        with pytest.raises(DivergedError, match="no weight was changed"):
            gradient_step.descend(model, optimizer, 1.0)
        assert saved(engine) == before


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_saved(wrong, saved):
    engine = LocalEngine(resolve({**CONFIG, "learner": {"average": 0.9}}))
    saved(engine)
    with torch.no_grad():
        engine.learner.average.model.parameters()[0].view(-1)[-1] = wrong
    with pytest.raises(DivergedError, match="is not saved"):
        saved(engine)


def test_weights_that_are_finite_and_useless_are_not_saved(saved):
    engine = LocalEngine(resolve(CONFIG))
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.mul_(1e30)
    with pytest.raises(DivergedError, match="gives no probabilities"):
        saved(engine)

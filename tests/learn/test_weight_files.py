"""Snapshots: one class for past policies, EMA weights, reference and reward model, with saving, restoring and size."""

import pytest
import torch

from sparring.config import resolve
from sparring.core.errors import CheckpointError, ModelError
from sparring.core.records import snapshot
from sparring.engine import plan
from sparring.engine.local import LocalEngine
from sparring.learn.weight_files import (
    COPIES,
    Snapshot,
    ema_decay,
    num_updates,
    planned_copies,
    planned_snapshots,
)
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from tests.engine.builders import weights

BASE = {
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
}
ALL_COPIES = {
    "credit": {"name": "oprl"},
    "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}],
    "rollout": {"group_size": 8},
    "learner": {"average": 0.5},
    "league": {"every": 1, "keep": 2},
}


def make_engine(**changes):
    return LocalEngine(resolve({**BASE, **changes}))


def test_a_snapshot_changes_only_by_follow():
    """An EMA with decay 0.75 moves a quarter of the distance: from 0 towards 1 to 0.25, then to 0.4375."""
    model = make_engine().model
    snapshot = Snapshot.of(model, "average")
    with torch.no_grad():
        for copy, current in zip(snapshot.model.parameters(), model.parameters(), strict=True):
            copy.zero_()
            current.fill_(1.0)
    assert not weights(snapshot.model).any()
    for expected in (0.25, 0.4375):
        snapshot.follow(model, 0.75)
        assert torch.equal(weights(snapshot.model), torch.full_like(weights(model), expected))
    assert snapshot.model.version == 0  # the caller counts the updates
    snapshot.follow(model)
    assert torch.equal(weights(snapshot.model), weights(model))


def test_only_saved_snapshots_are_restored(tmp_path):
    engine, other_run = make_engine(), make_engine(seed=1)
    engine.model.version = 7
    path = tmp_path / "x.safetensors"
    Snapshot.of(engine.model, "past").save(path)
    snapshot = Snapshot.of(other_run.model, "past")
    snapshot.restore(path, 7)
    assert torch.equal(weights(snapshot.model), weights(engine.model)) and snapshot.model.version == 7
    assert not torch.equal(weights(other_run.model), weights(engine.model))
    with pytest.raises(CheckpointError, match="not a count of updates"):
        snapshot.restore(path, -1)
    with pytest.raises(ModelError, match="of another model"):
        Snapshot.of(make_engine(model={"hidden_size": 16, "layers": 1, "heads": 1}).model, "past").restore(path, 7)


def test_the_plan_counts_the_weights_of_the_engine():
    config = resolve({**BASE, **ALL_COPIES})
    engine = LocalEngine(config)
    for step in (1, 2):
        engine.take_member(snapshot(step))
    snapshots = engine.policies["main"].snapshots
    assert {s.purpose for s in snapshots} == set(COPIES) == set(planned_snapshots(config))
    trained_bytes = sum(p.numel() * 4 for p in engine.model.parameters())
    size = sum(
        COPIES[copy.purpose] * sum(w.numel() * w.element_size() for w in copy.model.tensors().values())
        for copy in snapshots
    )
    assert size == planned_copies(config) * trained_bytes == (2 + 1 + 1 + 4) * trained_bytes
    parameters = trained_bytes // 4
    assert plan.memory_to_train(config, parameters) == trained_bytes * 3 + size
    assert planned_copies(resolve(BASE)) == 0


WITH_EMA = {"rollout": {"games_per_step": 8}, "learner": {"average": 0.998, "minibatches": 4, "learning_rate": 0.01}}


def learn(run, step):
    play_round(run.config, run, Methods.of(run.config), RunState(step=step))


def test_ema_weights_contain_almost_no_initial_weights():
    """With a constant decay, 0.998 ** 8 = 98 % of the EMA weights would be the random initial weights."""
    run = make_engine(**WITH_EMA)
    initial_weights, weights_by_update = weights(run.model), []
    apply = run.learner._apply_gradient

    def record_weights():
        norm = apply()
        weights_by_update.append(weights(run.model))
        return norm

    run.learner._apply_gradient = record_weights
    for step in range(2):
        learn(run, step)
    assert len(weights_by_update) == num_updates(run.learner.optimizer) == 8
    average, expected = weights(run.learner.average.model), initial_weights
    for index, weights_after in enumerate(weights_by_update, 1):
        expected = torch.lerp(weights_after, expected, index / (index + 4))
    assert torch.allclose(average, expected, atol=1e-6)
    share_of_initial = torch.tensor([index / (index + 4) for index in range(1, 9)]).prod()
    assert share_of_initial == pytest.approx(24 / (9 * 10 * 11 * 12))  # the share of the initial weights


def test_the_decay_warms_up_to_the_configured_value():
    assert [ema_decay(0.998, updates) for updates in (1, 4, 1996, 100_000)] == [0.2, 0.5, 0.998, 0.998]
    assert ema_decay(0.0, 10) == 0.0


def test_ema_weights_have_the_version_of_the_policy_also_when_restored(tmp_path):
    engine = make_engine(**WITH_EMA)
    for step in range(2):
        learn(engine, step)
    assert engine.learner.average.model.version == engine.model.version == 2
    tmp_path.joinpath("saved").mkdir()
    engine.save(tmp_path / "saved")
    resumed_engine = make_engine(**WITH_EMA)
    resumed_engine.restore(tmp_path / "saved")
    for engine_or_resumed in (engine, resumed_engine):
        learn(engine_or_resumed, 2)
        assert engine_or_resumed.learner.average.model.version == engine_or_resumed.model.version == 3
    assert torch.equal(weights(engine.learner.average.model), weights(resumed_engine.learner.average.model))
    engine.learner.restart(Snapshot.of(engine.model, "past"))
    assert engine.learner.average.model.version == engine.model.version == 4
    assert num_updates(engine.learner.optimizer) == 0  # the EMA weights are reset

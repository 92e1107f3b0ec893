"""Split learners keep their tensors on their GPU; tested with simulated GPUs and without torch's ``fully_shard``.

The tests have one learner, so its shard is the complete tensor. Not tested here: ``fully_shard`` and nccl.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.engine.ranks import shard_process
from sparring.engine.ranks.shard_process import ShardedLearner
from sparring.learn import master_weights, split
from sparring.learn.master_weights import SplitAdamW, SplitMasterAdamW
from sparring.learn.split import TreeReduceScatter
from sparring.learn.weight_files import fingerprint, load_optimizer
from sparring.methods.credit.base import Credit
from tests.device.pretended import CPU, GPU, pretended_gpu
from tests.device.test_placement import make_engine, named_tensors, play_episodes

FULLY_SHARD_METHODS = (
    "set_gradient_divide_factor",
    "set_force_sum_reduction_for_comms",
    "set_custom_reduce_scatter",
    "set_requires_gradient_sync",
    "reshard",
)


@pytest.fixture
def gpu(monkeypatch):
    """Simulate GPUs, and a ``fully_shard`` that leaves all weights on the one learner."""

    def unsharded(module, mesh):
        assert mesh == "mesh of cuda"
        for name in FULLY_SHARD_METHODS:
            setattr(module, name, lambda *_: None)
        return module

    for name in ("to_local", "full_tensor"):
        monkeypatch.setattr(torch.Tensor, name, lambda self: self, raising=False)
    monkeypatch.setattr(torch.Tensor, "device_mesh", SimpleNamespace(size=lambda: 1), raising=False)
    monkeypatch.setattr(split, "fully_shard", unsharded)
    with pretended_gpu(monkeypatch) as checked:
        yield checked


def shard_of(run, monkeypatch, folder):
    """Return a connected learner and the options of its process group."""
    options = {}
    monkeypatch.setattr(torch.distributed, "FileStore", lambda path, ranks: path, raising=False)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **settings: options.update(settings, backend=backend)
    )
    monkeypatch.setattr(shard_process, "init_device_mesh", lambda kind, shape: f"mesh of {kind}")
    shard = ShardedLearner.__new__(ShardedLearner)
    shard.rank, shard.num_ranks, shard.engine, shard._store = 0, 1, run, folder / "store"
    shard.connect()
    return shard, options


@pytest.mark.slow
@pytest.mark.parametrize("master", [False, True])
def test_a_learner_of_split_weights_learns_saves_and_loads_on_its_gpu(master, gpu, monkeypatch, chat_folder, tmp_path):
    learner = {"leaves": 4, "master_weights": master, "minibatches": 1}
    changes = (
        {"learner": learner, "model": {"dtype": "bfloat16"}, "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}]}
        if master
        else {"learner": learner}
    )
    run, unsplit_run = make_engine(chat_folder, **changes), make_engine(chat_folder, **changes)
    episodes = play_episodes(unsplit_run, 0)
    shard, options = shard_of(run, monkeypatch, tmp_path)
    assert options["backend"] == "cpu:gloo,cuda:nccl" and options["world_size"] == 1
    policy = run.policies["main"]
    assert type(policy.trained.optimizer) is (SplitMasterAdamW if master else SplitAdamW)
    for step in (1, 2):
        batch = run.batch(episodes, progress=0.0)
        credit = Credit(advantages=np.linspace(-1, 1, len(batch.turns.reward)))
        for either_policy in (policy, unsplit_run.policies["main"]):
            either_policy.learn(batch, credit, step=step, progress=0.0)
        policy.imitate(episodes)
        unsplit_run.imitate(episodes)
    tensors_elsewhere = {
        name: tensor.device
        for name, tensor in named_tensors(run)
        if tensor.device != GPU and not name.endswith(".step")
    }
    assert not tensors_elsewhere, "only the step counts are in CPU memory"
    assert fingerprint(policy.model) == fingerprint(unsplit_run.policies["main"].model)
    shard._save_all_weights(
        policy.trained, tmp_path / policy.file_name("model"), tmp_path / policy.file_name("average")
    )
    shard._save_moments(policy.trained, tmp_path / policy.file_name("optimizer"))
    load_optimizer(unsplit_run.policies["main"].trained.optimizer, tmp_path / policy.file_name("optimizer"))
    resumed_run = make_engine(chat_folder, **changes)
    resumed_shard, _ = shard_of(resumed_run, monkeypatch, tmp_path)
    resumed_shard._take_weights(resumed_run.policies["main"], tmp_path, policy.model.version)
    assert fingerprint(resumed_run.policies["main"].model) == fingerprint(policy.model)
    assert not {
        name for name, tensor in named_tensors(resumed_run) if tensor.device != GPU and not name.endswith(".step")
    }
    for either_policy in (policy, resumed_run.policies["main"]):
        either_policy.learn(batch, credit, step=3, progress=0.0)
    assert fingerprint(resumed_run.policies["main"].model) == fingerprint(policy.model)


def test_missing_gradients_are_zeros_on_the_gpu(gpu):
    weights = [torch.nn.Parameter(torch.ones(2, device="cuda")) for _ in range(2)]
    tree = split.SplitGradientTree(weights, 2, SimpleNamespace(rank=0, num_ranks=1), (100, 1))
    for _ in range(2):
        weights[0].grad = torch.ones(2, device="cuda")
        tree.add()
    tree.finish()
    assert weights[0].grad.device == GPU and weights[0].grad.tolist() == [2.0, 2.0] and weights[1].grad is None


def test_the_optimizer_kernel_gets_the_update_count_on_the_gpu(gpu, monkeypatch):
    """The kernel reads the count on its GPU, although torch's rules allow a scalar on any device."""
    devices = []
    monkeypatch.setattr(
        master_weights, "adamw", lambda weights, gradients, means, squares, none, steps, **_: devices.extend(steps)
    )
    weight_state, step = tuple(torch.ones(3, device="cuda") for _ in range(4)), torch.zeros(())
    master_weights.update([master_weights.OptimizerRows(weight_state, 0, 3, step)], lr=0.1)
    assert [count.device for count in devices] == [GPU] and step.device == CPU and devices[0] is not step


def test_rows_are_summed_along_the_tree_on_the_gpu(gpu, monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_to_all_single", lambda out, source, group: out.copy_(source))
    rows = TreeReduceScatter().allocate([4, 3], dtype=torch.bfloat16, device=torch.device("cuda")).fill_(1.0)
    summed = TreeReduceScatter().allocate([3], dtype=torch.bfloat16, device=torch.device("cuda"))
    TreeReduceScatter()(summed, rows.view(-1), None, None)
    assert rows.device == summed.device == GPU and summed.tolist() == [4.0] * 3


def test_learners_on_the_cpu_use_only_gloo(monkeypatch, chat_folder, tmp_path):
    monkeypatch.setattr(shard_process, "split_learner", lambda learner, mesh, other_ranks, each_pass: None)
    run = make_engine(chat_folder, model={"device": "cpu"})
    _, options = shard_of(run, monkeypatch, tmp_path)
    assert options["backend"] == "gloo" and run.model.device == CPU

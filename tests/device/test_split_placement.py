"""What split learners do beside torch's ``fully_shard`` is on their GPU, without one and without torch's splitting.

One learner stands for several: its part of a tensor is the whole. Not run here are ``fully_shard`` itself and nccl.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.engine.ranks import shard_process as room
from sparring.engine.ranks.shard_process import Shard
from sparring.learn import master_weights, split
from sparring.learn.master_weights import SplitAdamW, SplitMasterAdamW
from sparring.learn.split import TreeReduceScatter
from sparring.learn.weight_files import fingerprint, load_optimizer
from sparring.methods.credit.base import Credit
from tests.device.pretended import CPU, GPU, pretended_gpu
from tests.device.test_placement import engine, plays, tensors

TOLD = (
    "set_gradient_divide_factor",
    "set_force_sum_reduction_for_comms",
    "set_custom_reduce_scatter",
    "set_requires_gradient_sync",
    "reshard",
)


@pytest.fixture
def gpu(monkeypatch):
    """Pretended GPUs, and a ``fully_shard`` that leaves all to the one learner."""

    def whole(module, mesh):
        assert mesh == "mesh of cuda"
        for name in TOLD:
            setattr(module, name, lambda *_: None)
        return module

    for name in ("to_local", "full_tensor"):
        monkeypatch.setattr(torch.Tensor, name, lambda self: self, raising=False)
    monkeypatch.setattr(torch.Tensor, "device_mesh", SimpleNamespace(size=lambda: 1), raising=False)
    monkeypatch.setattr(split, "fully_shard", whole)
    with pretended_gpu(monkeypatch) as checked:
        yield checked


def shard_of(run, monkeypatch, folder):
    """Return a learner that has met the others, and how they have met."""
    options = {}
    monkeypatch.setattr(torch.distributed, "FileStore", lambda path, ranks: path, raising=False)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **how: options.update(how, backend=backend)
    )
    monkeypatch.setattr(room, "init_device_mesh", lambda kind, shape: f"mesh of {kind}")
    shard = Shard.__new__(Shard)
    shard.rank, shard.ranks, shard.engine, shard._store = 0, 1, run, folder / "store"
    shard.connect()
    return shard, options


@pytest.mark.slow
@pytest.mark.parametrize("master", [False, True])
def test_a_learner_of_split_weights_learns_saves_and_takes_back_on_its_gpu(
    master, gpu, monkeypatch, chat_folder, tmp_path
):
    learner = {"leaves": 4, "master_weights": master, "minibatches": 1}
    changes = (
        {"learner": learner, "model": {"dtype": "bfloat16"}, "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}]}
        if master
        else {"learner": learner}
    )
    run, plain = engine(chat_folder, **changes), engine(chat_folder, **changes)
    episodes = plays(plain, 0)
    shard, options = shard_of(run, monkeypatch, tmp_path)
    assert options["backend"] == "cpu:gloo,cuda:nccl" and options["world_size"] == 1
    policy = run.policies["main"]
    assert type(policy.trained.optimizer) is (SplitMasterAdamW if master else SplitAdamW)
    for step in (1, 2):
        batch = run.batch(episodes, progress=0.0)
        credit = Credit(advantages=np.linspace(-1, 1, len(batch.turns.reward)))
        for engine_of in (policy, plain.policies["main"]):
            engine_of.learn(batch, credit, step=step, progress=0.0)
        policy.imitate(episodes)
        plain.imitate(episodes)
    misplaced = {
        name: tensor.device for name, tensor in tensors(run) if tensor.device != GPU and not name.endswith(".step")
    }
    assert not misplaced, "steps are counted in the machine's memory"
    assert fingerprint(policy.model) == fingerprint(plain.policies["main"].model)
    shard._save_all_weights(policy.trained, tmp_path / policy.file("model"), tmp_path / policy.file("average"))
    shard._save_moments(policy.trained, tmp_path / policy.file("optimizer"))
    load_optimizer(plain.policies["main"].trained.optimizer, tmp_path / policy.file("optimizer"))
    other = engine(chat_folder, **changes)
    second, _ = shard_of(other, monkeypatch, tmp_path)
    second._take_weights(other.policies["main"], tmp_path, policy.model.version)
    assert fingerprint(other.policies["main"].model) == fingerprint(policy.model)
    assert not {name for name, tensor in tensors(other) if tensor.device != GPU and not name.endswith(".step")}
    for engine_of in (policy, other.policies["main"]):
        engine_of.learn(batch, credit, step=3, progress=0.0)
    assert fingerprint(other.policies["main"].model) == fingerprint(policy.model)


def test_a_learner_that_has_no_gradient_somewhere_has_zeros_on_its_gpu(gpu):
    weights = [torch.nn.Parameter(torch.ones(2, device="cuda")) for _ in range(2)]
    tree = split.SplitGradientTree(weights, 2, SimpleNamespace(rank=0, ranks=1), (100, 1))
    for _ in range(2):
        weights[0].grad = torch.ones(2, device="cuda")
        tree.add()
    tree.finish()
    assert weights[0].grad.device == GPU and weights[0].grad.tolist() == [2.0, 2.0] and weights[1].grad is None


def test_the_kernel_finds_the_count_of_updates_on_the_gpu_and_leaves_ours_where_it_is(gpu, monkeypatch):
    """It reads the count on its device; torch's rules of places, which let a number be anywhere, do not say so."""
    seen = []
    monkeypatch.setattr(
        master_weights, "adamw", lambda weights, gradients, means, squares, none, steps, **_: seen.extend(steps)
    )
    four, step = tuple(torch.ones(3, device="cuda") for _ in range(4)), torch.zeros(())
    master_weights.update([master_weights.OptimizerRows(four, 0, 3, step)], lr=0.1)
    assert [count.device for count in seen] == [GPU] and step.device == CPU and seen[0] is not step


def test_rows_are_added_along_the_tree_on_the_gpu(gpu, monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_to_all_single", lambda out, source, group: out.copy_(source))
    rows = TreeReduceScatter().allocate([4, 3], dtype=torch.bfloat16, device=torch.device("cuda")).fill_(1.0)
    summed = TreeReduceScatter().allocate([3], dtype=torch.bfloat16, device=torch.device("cuda"))
    TreeReduceScatter()(summed, rows.view(-1), None, None)
    assert rows.device == summed.device == GPU and summed.tolist() == [4.0] * 3


def test_learners_on_the_cpu_meet_by_gloo_alone(monkeypatch, chat_folder, tmp_path):
    monkeypatch.setattr(room, "split_learner", lambda learner, mesh, others, each_pass: None)
    run = engine(chat_folder, model={"device": "cpu"})
    _, options = shard_of(run, monkeypatch, tmp_path)
    assert options["backend"] == "gloo" and run.model.device == CPU

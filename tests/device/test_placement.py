"""All tensors of a run on a GPU are on the GPU, in play, learning, saving and loading; tested with simulated GPUs.

``pretended.py`` simulates them. Not tested here: the compiled forward pass, which runs only on a CPU, and gloo, which
gets CPU tensors.
"""

import itertools
import shutil

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, PlayerRef, snapshot
from sparring.engine.local import LocalEngine
from sparring.engine.ranks.messages import GradientSums
from sparring.league.seating import step_specs
from sparring.learn.pack import critic_position
from sparring.learn.weight_files import fingerprint
from sparring.methods.credit.base import Credit
from sparring.models.forward_pass import CompiledPass
from sparring.models.load import load_saved_model
from sparring.play.spec import EpisodeSpec
from tests.device.pretended import CPU, GPU, SECOND, pretended_gpu

SHAPE = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
}  # fmt: skip
FAMILIES = {
    "gpt2": lambda size: GPT2LMHeadModel(GPT2Config(vocab_size=size, n_embd=32, n_head=2, n_layer=2, n_positions=512, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, activation_function="relu")),
    "qwen3": lambda size: Qwen3ForCausalLM(Qwen3Config(vocab_size=size, **SHAPE)),
    "gemma3": lambda size: Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=size, **SHAPE, sliding_window=4, layer_types=["sliding_attention", "full_attention"])),
    "mistral": lambda size: MistralForCausalLM(MistralConfig(vocab_size=size, **SHAPE)),
}  # fmt: skip
KUHN = {
    "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "renderer": {"name": "chat"},
    "rollout": {"games_per_step": 4, "max_new_tokens": 3}, "learner": {"minibatches": 2, "micro_tokens": 1000, "average": 0.9},
}  # fmt: skip
POLICY = PlayerRef("policy")  # the EMA weights
LOSSES = [
    {"name": name, **({} if preset is None else {"preset": preset})}
    for name in registry.names("losses") if name != "value_loss"
    for preset in (None, *registry.load("losses", name).presets)
]  # fmt: skip


@pytest.fixture
def gpu(monkeypatch):
    """Simulate GPUs; fail if code compiled for the CPU gets a GPU tensor (a model is loaded into CPU memory first)."""
    call = CompiledPass.__call__

    def call_on_cpu(compiled, *arguments):
        assert compiled.parts.tokens.device.type == "cpu", "compiled code reads a GPU's memory"
        return call(compiled, *arguments)

    with pretended_gpu(monkeypatch) as checked:
        monkeypatch.setattr(CompiledPass, "__call__", call_on_cpu)
        yield checked


def make_engine(folder, **changes):
    parts = {
        key: {**KUHN.get(key, {}), **value} if isinstance(value, dict) else value for key, value in changes.items()
    }
    model = {"name": str(folder), "device": "cuda", **changes.get("model", {})}
    return LocalEngine(resolve({**KUHN, **parts, "model": model}))


def named_tensors(engine):
    for name, policy in engine.policies.items():
        models = [policy.model, *(copied.model for copied in policy.snapshots)]
        for index, model in enumerate(models):
            for prefix, module in model.modules():
                yield from (
                    (f"{name}.{index}.{prefix}.{key}", tensor)
                    for key, tensor in (*module.named_parameters(), *module.named_buffers())
                )
        for learner in (policy.learner, policy.process):
            for index, state in enumerate(learner.optimizer.state.values() if learner is not None else ()):
                yield from ((f"{name}.optimizer.{index}.{key}", tensor) for key, tensor in state.items())


def play_episodes(engine, step, other_players=()):
    matchmaker = registry.bind("league.matchmakers", "mirror")
    specs = step_specs(
        step,
        games=engine.environments,
        rollout=engine.config.rollout,
        matchmaker=matchmaker,
        members=(),
        root=engine.root,
        progress=0.0,
    )
    game = engine.environments[0][0]
    for index, (other, seat_order) in enumerate(itertools.product(other_players, (1, -1)), len(specs)):
        # each player has the first seat once, so one call samples replies for both players
        root = engine.root.child("against").child(index)
        specs.append(
            EpisodeSpec(
                game=game,
                episode_id=index,
                group_id=index,
                deal=root,
                stream=root.child("play"),
                seats=(LEARNER, other)[::seat_order],
                trained=(True, False)[::seat_order],
            )
        )
    return engine.play(specs).episodes


def learn_step(engine, episodes, step):
    for name in engine.learners:
        batch = engine.batch(episodes, progress=0.0, policy=name)
        count = len(batch.turns.reward)
        is_per_token = (
            "values" in engine.policies[name].trained.needs
            and critic_position(engine.policies[name].columns) == "token"
        )
        targets = np.linspace(-1, 1, len(batch.pack.turn_of) if is_per_token else count)
        metrics = engine.learn(
            batch, Credit(advantages=np.linspace(-1, 1, count), value_targets=targets), step=step, progress=0.0
        )
        assert np.isfinite(list(metrics.values())).all()
        assert np.isfinite(engine.entropies(batch)).all()


def run_all_stages(engine, resumed_engine, folder, device=GPU):
    """Play, learn, save, restore, restart and score; a second engine continues from the checkpoint."""
    episodes = play_episodes(engine, 0)
    engine.imitate(episodes)
    engine.take_member(snapshot(1))
    learn_step(engine, episodes, 1)
    other_players = (snapshot(1), POLICY) if not engine.config.policies else ()
    episodes = play_episodes(engine, 1, other_players)
    engine.save(folder)
    resumed_engine.restore(folder)
    for either_engine in (engine, resumed_engine):
        learn_step(either_engine, episodes, 2)
    devices_of_misplaced = {
        name: tensor.device
        for either_engine in (engine, resumed_engine)
        for name, tensor in named_tensors(either_engine)
        if tensor.device != device
    }
    assert not devices_of_misplaced
    for name in engine.learners:
        assert fingerprint(engine.policies[name].model) == fingerprint(resumed_engine.policies[name].model)
    engine.restart(snapshot(1))
    engine.drop_member(snapshot(1))
    for policy in engine.policies.values():
        policy.model.check()
        sampler, ids = policy._policy_agent(LEARNER, policy.model).sampler, (5, 6, 7)
        scored = sampler.score([ids, ids[:2]], [[(3, 4), (3,)], [(9,)]], policy.params)
        assert [scores.shape for scores in scored] == [(2,), (1,)] and not sampler.invariant
        sampler.publish({key: tensor.cpu() for key, tensor in policy.model.tensors().items()}, policy.model.version + 1)


CASES = {
    "plain": {},
    "losses": {"losses": LOSSES},
    "adapters": {"model": {"lora": {"rank": 2}, "gradient_checkpointing": True}},
    "two": {"model": {"lora": {"rank": 2}}, "policies": {"a": {}, "b": {}}, "roles": {"first": "a", "second": "b"}},
    "truncated": {"rollout": {"top_p": 0.8, "top_k": 40, "temperature": 0.7}},
    "reverse": {"learner": {"order": "reverse_turns"}, "credit": {"name": "rae"}},
    "leaves": {"learner": {"leaves": 64, "reduction": "sequence_mean"}},  # some leaves are empty
    "half": {"model": {"dtype": "bfloat16"}},
    "critic": {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]},
    "process": {"credit": {"name": "oprl"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_run_on_a_gpu_mixes_no_devices(name, gpu, chat_folder, tmp_path):
    run_all_stages(make_engine(chat_folder, **CASES[name]), make_engine(chat_folder, **CASES[name]), tmp_path)
    assert gpu.operations > 1000


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_plays_learns_and_is_exported_on_a_gpu(family, gpu, chat_folder, tmp_path):
    folder = shutil.copytree(chat_folder, tmp_path / family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        FAMILIES[family](len(AutoTokenizer.from_pretrained(folder))).save_pretrained(folder)
    lora = {"rank": 2, "targets": ["c_attn"]} if family == "gpt2" else {"rank": 2}
    for index, adapter in enumerate((None, lora) if family != "mistral" else (None,)):
        engine = make_engine(folder, model={"lora": adapter})
        run_all_stages(engine, make_engine(folder, model={"lora": adapter}), tmp_path)
        engine.model.save(tmp_path / f"saved{index}", adapter=adapter is not None)
        reloaded = load_saved_model(
            tmp_path / f"saved{index}",
            base=str(folder) if adapter else None,
            lora=adapter and {"alpha": 32.0, "targets": [], **adapter},
            device="cuda",
        )
        assert reloaded.device == GPU and {parameter.device for parameter in reloaded.network.parameters()} == {GPU}
        assert engine.model.decoding == reloaded.decoding == "torch"


def test_a_learner_uses_its_assigned_gpu(gpu, chat_folder, tmp_path):
    changes = {"learner": {"gpus": [1]}}
    run_all_stages(make_engine(chat_folder, **changes), make_engine(chat_folder, **changes), tmp_path, SECOND)
    with pytest.raises(
        ConfigError,
        match=r"learner.gpus=\[2\] needs GPU 2, but torch sees 2 GPUs on this machine, numbered 0 to 1",
    ):
        make_engine(chat_folder, learner={"gpus": [2]})


def test_learners_sum_gradients_on_the_cpu_and_copy_them_to_the_gpu(gpu):
    sums = GradientSums.__new__(GradientSums)
    sums.rank, sums.num_ranks, sums._group = 0, 2, StubGroup()
    gradient = torch.ones(3, device="cuda")
    assert sums.sum_over_ranks(gradient).device == GPU and sums.sum_over_ranks(gradient).tolist() == [2.0, 2.0, 2.0]


class StubGroup:
    """Two learners with equal tensors: each receives what it sends."""

    def send(self, tensors, partner, tag):
        (self.sent,) = tensors
        assert self.sent.device == CPU
        return self

    def recv(self, tensors, partner, tag):
        tensors[0].copy_(self.sent)
        assert tensors[0].device == CPU
        return self

    def wait(self):
        return None

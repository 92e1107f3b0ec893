"""Learners whose weights are split: the bits of one, checkpoints for any number of them, and clear errors."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

from sparring.api import train
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, DivergedError, RunError
from sparring.core.refs import snapshot
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe, process_memory
from sparring.engine.run_processes import learning
from sparring.league.seating import starts
from sparring.methods.credit.base import Credit
from sparring.models.memory import GIB
from tests.sockets import listening

KUHN = {"environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}], "threads": 1, "seed": 3}
SMALL = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 2}}
GUESSES = {"environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]}  # so that who says nothing legal earns this and that
SPLIT = {"leaves": 4, "ranks": 2, "sharding": "fsdp2"}
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
CHAT = {"renderer": {"name": "chat"}, "rollout": {"games_per_step": 4, "max_new_tokens": 3}}


def learner_of(ranks, **changes):
    return {"leaves": 4, "average": 0.9, "minibatches": 2, "ranks": ranks, "sharding": "fsdp2" if ranks > 1 else "none", **changes}


def engine(ranks, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    return LocalEngine(resolve({**KUHN, **SMALL, "learner": learner, **changes}))


def batch_of(run):
    matchmaker = bind("league.matchmakers", "mirror")
    specs = starts(0, games=run.environments, rollout=run.config.rollout, matchmaker=matchmaker, members=(), root=run.root, progress=0.0)
    found = run.batch(run.play(specs).episodes, progress=0.0)
    return found, Credit(advantages=np.linspace(-1, 1, len(found.turns.reward)))


@pytest.mark.slow
def test_two_learners_with_split_weights_have_the_bits_of_one(tmp_path, saved):
    alone, two = engine(1), engine(2)
    batch, credit = batch_of(alone)
    with learning(two, tmp_path):
        assert saved(two) == saved(alone), "before they have learnt, too"
        assert two.imitate(batch.episodes) == pytest.approx(alone.imitate(batch.episodes))
        for step in (1, 2, 3):
            assert two.learn(batch, credit, step=step, progress=0.1) == alone.learn(batch, credit, step=step, progress=0.1)
        assert saved(two) == saved(alone)
        two.take_member(one := snapshot(1))
        alone.take_member(one)
        for run in (two, alone):
            run.learn(batch, credit, step=4, progress=0.1)
            run.restart(one)
            run.learn(batch, credit, step=5, progress=0.1)
        assert saved(two) == saved(alone)
        assert not two.learner.optimizer.state and alone.learner.optimizer.state
        other = engine(1, seed=4)
        other.learn(batch, credit, step=1, progress=0.1)
        other.model.version = two.model.version
        (tmp_path / "other").mkdir()
        other.save(tmp_path / "other")
        two.restore(tmp_path / "other")
        assert saved(two) == saved(other), "and not what learners held at as many updates"
        if sys.platform == "linux":
            pids = [child.process.pid for child in two.ranks._children]
            assert listening([os.getpid(), *pids]) == {"0100007F"}
            for own in (b"GLOO_SOCKET_IFNAME=lo\0", b"MALLOC_MMAP_THRESHOLD_=1048576\0"):
                assert all(own in Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)
        assert not torch.distributed.is_initialized()  # the default group is the caller's
    assert not (tmp_path / "learners").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["none", "leaf", "pass"])
def test_turns_that_carry_no_loss_are_left_out_by_several_learners_as_by_one(forked, how, tmp_path, saved):
    """Also where a learner's leaves are all masked, and where only one turn is left."""
    alone = engine(1)
    split = {} if how == "none" else {"gradient_sync": how}
    two = engine(2, learner={"sharding": "none" if how == "none" else "fsdp2", **split})
    batch, whole = batch_of(alone)
    rows = len(batch.turns.reward)
    masks = [np.arange(rows) % 3 > 0, np.arange(rows) < rows // 4, np.arange(rows) == 5]
    with learning(two, tmp_path):
        for step, mask in enumerate(masks, 1):
            credit = Credit(advantages=whole.advantages, trained=mask)
            assert two.learn(batch, credit, step=step, progress=0.1) == alone.learn(batch, credit, step=step, progress=0.1)
        assert saved(two) == saved(alone)
        unmasked = engine(1)
        for step, _ in enumerate(masks, 1):
            unmasked.learn(batch, whole, step=step, progress=0.1)
        assert saved(unmasked) != saved(alone)


def moments(run, folder):
    folder.mkdir()
    run.save(folder)
    return safetensors.torch.load_file(folder / "optimizer.safetensors")


FAMILIES = {"whole": {}, "llama": {"model": {"gradient_checkpointing": True}}, "reference": {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}]}}
SYNCED = [(name, "leaf") for name in FAMILIES] + [("llama", "pass")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sync"), SYNCED)
def test_leaves_of_several_passes_have_the_bits_of_one_learner_unless_each_pass_is_added(forked, name, sync, chat_folder, tmp_path, saved):
    changes = {**CHAT, **FAMILIES[name], "learner": {"micro_tokens": 40, "minibatches": 1, "gradient_sync": sync}}
    folder = chat_folder
    if name == "whole":  # its own forward pass, whose blocks it calls itself
        folder = shutil.copytree(chat_folder, tmp_path / "mistral")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            MistralForCausalLM(MistralConfig(**SHAPE, vocab_size=len(AutoTokenizer.from_pretrained(folder)))).save_pretrained(folder)
    changes["model"] = {"name": str(folder), **changes.get("model", {})}
    alone, two = (engine(ranks, **{**changes, "learner": dict(changes["learner"])}) for ranks in (1, 2))
    batch, credit = batch_of(alone)
    with learning(two, tmp_path):
        if sync == "leaf":
            assert two.imitate(batch.episodes) == pytest.approx(alone.imitate(batch.episodes))
        for step in (1, 2):
            ours, theirs = (run.learn(batch, credit, step=step, progress=0.1) for run in (two, alone))
            assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-5)
        first, second = moments(two, tmp_path / "two"), moments(alone, tmp_path / "alone")
        assert first.keys() == second.keys()
        assert max(float((first[key] - second[key]).abs().max()) for key in first) < 1e-6
        assert (saved(two) == saved(alone)) == (sync == "leaf")


@pytest.mark.slow
@pytest.mark.parametrize("critic", [False, True], ids=["policy", "critic"])
def test_weights_of_16_bits_with_masters_have_the_bits_of_one_learner(forked, critic, chat_folder, tmp_path, saved):
    """And go on from a checkpoint with another number of learners; a critic's head has 32 bits beside them."""
    model = {"name": str(chat_folder), "dtype": "bfloat16"}
    shares = {"leaves": 2, "master_weights": True, "minibatches": 1, "learning_rate": 1e-4}
    changes = {**CHAT, **({"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]} if critic else {})}
    alone, two = (engine(ranks, model=model, learner=shares, **changes) for ranks in (1, 2))
    batch, credit = batch_of(alone)
    credit = Credit(advantages=credit.advantages, value_targets=credit.advantages if critic else None)
    before = {name: tensor.clone() for name, tensor in alone.model.tensors().items()}
    with learning(two, tmp_path):
        for step in (1, 2, 3):
            assert two.learn(batch, credit, step=step, progress=0.1) == alone.learn(batch, credit, step=step, progress=0.1)
        assert saved(two) == saved(alone)
        kept = moments(two, tmp_path / "kept")
        again = engine(1, model=model, learner=shares, **changes)
        for run in (two, again):
            run.restore(tmp_path / "kept")
        for run in (two, again, alone):
            run.learn(batch, credit, step=4, progress=0.1)
        assert saved(two) == saved(again) == saved(alone)
    names = [name for name in before if before[name].dtype == torch.bfloat16]
    masters = {key: value for key, value in kept.items() if key.endswith("master")}
    assert len(masters) == len(names) and {value.dtype for value in kept.values()} == {torch.float32}


def run(folder, ranks, resume=False, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    train({**KUHN, **SMALL, **GUESSES, "steps": 4, "warmup": {"updates": 1, "games": 16}, **changes, "learner": learner}, run=folder, resume=resume)
    last = max((folder / "checkpoints").iterdir())
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    norms = [value for line in lines for name, value in line.items() if name.endswith("gradient_norm")]
    assert norms and min(norms) > 0, "else nothing is learnt, and all weights are those of the beginning"
    return {path.name: path.read_bytes() for path in last.iterdir() if path.suffix == ".safetensors"} | {"metrics": (folder / "metrics.jsonl").read_bytes()}


LEAGUE = {"matchmaker": {"name": "meta_strategy"}, "league": {"every": 2, "start": True, "restart": True, "plays": 8}}
CRITIC = {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}, {"name": "kl_penalty"}]}
POLICIES = {
    "environments": [{**GUESSES["environments"][0], "roles": {"first": "a", "second": "b"}}],
    "policies": {"a": {}, "b": {"model": {"hidden_size": 24, "layers": 1}, "learner": {"leaves": 8, "average": 0.0}}},
}
TWO = {"league": {"learners": {"main": {}, "exploiter": {"restart": 1.0}}, "every": 2, "start": True}}
WHOLE = {"losses": [{"name": "trajectory_dpo"}, {"name": "ppo_clip"}], "learner": {"order": "reverse_turns"}}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [LEAGUE, CRITIC, TWO, POLICIES, WHOLE], ids=["league", "critic", "two", "policies", "whole"])
def test_a_run_with_split_weights_leaves_the_bytes_of_one_learner(forked, tmp_path, changes):
    assert run(tmp_path / "four", 4, **changes) == run(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_goes_on_with_any_number_of_learners_split_or_not(forked, tmp_path):
    whole = run(tmp_path / "whole", 1, steps=5, warmup={"updates": 0})
    for step, (ranks, sharding) in enumerate([(2, "fsdp2"), (4, "fsdp2"), (1, "none"), (2, "none"), (1, "fsdp2")], 1):
        found = run(tmp_path / "parted", ranks, resume=step > 1, steps=step, warmup={"updates": 0}, learner={"sharding": sharding})
    assert all(found[name] == whole[name] for name in whole if name != "metrics")  # evaluated at other steps
    assert "learner.sharding" in (tmp_path / "parted" / "changes.jsonl").read_text()


@pytest.mark.slow
def test_a_learner_that_dies_in_a_sum_ends_the_run_and_a_checkpoint_goes_on(tmp_path):
    alone, two = engine(1), engine(2)
    batch, credit = batch_of(alone)
    with learning(two, tmp_path):
        for run in (alone, two):
            run.learn(batch, credit, step=1, progress=0.1)
        (tmp_path / "kept").mkdir()
        two.save(tmp_path / "kept")
        pid = two.ranks._children[1].process.pid
        os.kill(pid, signal.SIGSTOP)  # learner 0 waits for it in a sum
        threading.Timer(3.0, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two.learn(batch, credit, step=2, progress=0.1)
        assert not two.ranks._children
        for lost in (lambda: two.learn(batch, credit, step=2, progress=0.1), lambda: two.save(tmp_path / "kept")):
            with pytest.raises(RunError, match=r"went with learners that have ended.*--resume"):
                lost()
        two.restore(tmp_path / "kept")
        for run in (alone, two):
            run.learn(batch, credit, step=2, progress=0.1)
        assert all(tensor.equal(alone.model.tensors()[name]) for name, tensor in two.model.tensors().items())
        with pytest.raises(DivergedError, match="advantages are too large"):
            two.learn(batch, Credit(advantages=np.full(len(credit.advantages), 1e300)), step=3, progress=0.1)
        assert not two.ranks._children


def test_one_learner_splits_nothing(tmp_path):
    alone = engine(1, learner={"sharding": "fsdp2"})
    with learning(alone, tmp_path):
        assert alone.ranks is None and alone.policies["main"].moments is None


REFUSED = {
    "adapters": ({"model": {"name": "smollm2-135m", "lora": {"rank": 2}}}, r"learner.sharding=fsdp2.*adapters.*leave learner.sharding at none, or write model.lora: null"),
    "process": ({"credit": {"name": "oprl"}}, r"credit 'oprl' trains a reward model.*leave learner.sharding at none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_split_is_refused_with_what_to_write(name):
    changes, said = REFUSED[name]
    with pytest.raises(ConfigError, match=said):
        resolve({**KUHN, **changes, "learner": SPLIT})
    resolve({**KUHN, **changes, "learner": {"leaves": 4, "ranks": 2}})


@pytest.mark.slow
def test_a_learner_that_ends_is_noticed_though_another_is_awaited(tmp_path):
    """As with nccl, where the other one does not see it."""
    two = engine(2)
    batch, credit = batch_of(two)
    with learning(two, tmp_path):
        two.learn(batch, credit, step=1, progress=0.1)
        first, second = (child.process.pid for child in two.ranks._children)
        os.kill(first, signal.SIGSTOP)
        threading.Timer(1.0, os.kill, (second, signal.SIGKILL)).start()
        began = time.monotonic()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two.learn(batch, credit, step=2, progress=0.1)
        assert time.monotonic() - began < 60


def test_a_plan_says_what_each_learner_takes():
    tiny, found = {"hidden_size": 1024, "layers": 12, "heads": 16}, {}
    for ranks in (2, 8):
        config = resolve({**KUHN, "model": tiny, "learner": {"leaves": 8, "ranks": ranks, "sharding": "fsdp2", "micro_tokens": 512}})
        memory = process_memory(config)
        training, found[ranks] = memory["training process"].parts, memory["learner"]
        assert training["training"] == training["activations_and_logits"] == 0
        assert found[ranks].processes == ranks and found[ranks].each > GIB / 2 + 4 * training["weights"] / ranks
        assert describe(config)["learners"] == {"ranks": ranks, "leaves": 8, "sharding": "fsdp2"}
    whole = resolve({**KUHN, "model": tiny, "learner": {"leaves": 8, "ranks": 2, "micro_tokens": 512}})
    memory = process_memory(whole)
    training = memory["training process"]
    assert training.parts["training"] == pytest.approx(3 * training.parts["weights"], rel=0.05)
    assert found[8].each < found[2].each < memory["learner"].each
    one = resolve({**whole.model_dump(mode="json"), "learner": {"sharding": "fsdp2", "micro_tokens": 512}})
    assert process_memory(one) == {"training process": training}, "one learner splits nothing"

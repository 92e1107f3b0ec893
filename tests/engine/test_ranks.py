"""Several learner processes of one run write the bytes of one learner; if one ends, the error says so."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

from sparring.api import train
from sparring.config import resolve
from sparring.core.child_process import ChildProcess
from sparring.core.errors import ConfigError, DivergedError, RunError
from sparring.core.records import snapshot
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe, process_memory
from sparring.engine.ranks import messages as rank_messages
from sparring.engine.ranks.data_parallel import RankZero
from sparring.engine.ranks.messages import LearnMessage, run_in_thread
from sparring.engine.run_processes import run_ranks
from sparring.learn.gradient_step import Means, split_into_leaves
from sparring.learn.weight_files import fingerprint
from sparring.methods.credit.base import Credit
from sparring.models.memory import GIB
from sparring.run.config_checks import SAVED, describe_edits, fixed_settings
from tests.engine.builders import episodes_of
from tests.sockets import listening

KUHN = {"environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}], "threads": 1, "seed": 3}
SMALL_MODEL = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 1}}


@pytest.fixture
def make_two_learners(tmp_path):
    """Return a function that makes an engine, the batch of a step, and two learners, which end after the test."""
    rank_groups = []

    def make_engine_and_batch(**changes):
        config = resolve({**KUHN, **SMALL_MODEL, "learner": {"leaves": 4, "ranks": 2}, **changes})
        engine = LocalEngine(config)
        engine.ranks = RankZero(config, tmp_path / "learners")
        rank_groups.append(engine.ranks)
        return engine, *batch_and_credit(engine)

    yield make_engine_and_batch
    for ranks in rank_groups:
        ranks.close()


@pytest.mark.slow
def test_two_learners_equal_one_and_listen_only_on_loopback(make_two_learners, tmp_path):
    engine, batch, credit = make_two_learners()
    single_engine = LocalEngine(engine.config)
    for step in (1, 2):
        metrics = engine.learn(batch, credit, step=step, progress=0.1)
        assert metrics == single_engine.learn(batch, credit, step=step, progress=0.1)
    tensors_of_two, tensors_of_one = engine.model.tensors(), single_engine.model.tensors()
    assert all(tensors_of_two[name].equal(tensors_of_one[name]) for name in tensors_of_one)
    if sys.platform == "linux":
        pids = [os.getpid(), *(child.process.pid for child in engine.ranks._children)]
        assert listening(pids) == {"0100007F"}
    assert not torch.distributed.is_initialized()  # the default process group is left to the caller
    assert [path.name for path in (tmp_path / "learners").iterdir()] == [
        "store"
    ]  # files of states are removed when all learners have read them
    os.kill(engine.ranks._children[0].process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
        engine.learn(batch, credit, step=3, progress=0.1)
    assert engine.learn(batch, credit, step=3, progress=0.1)  # learners are started again with the current weights
    assert not any(tensor.isnan().any() for tensor in engine.model.tensors().values())


def test_a_stopped_learner_is_named_once_while_others_wait(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("sparring.engine.ranks.data_parallel.CHECK_SECONDS", 0.02)
    ranks = RankZero(SimpleNamespace(learner=SimpleNamespace(ranks=2)), tmp_path / "learners")
    child = ChildProcess(1, b"", ranks._mailbox, command=lambda hear, say: ["sleep", "60"], environment={})
    ranks._children = [child]
    try:
        for signal_number, num_warnings in (
            (signal.SIGCONT, 0),
            (signal.SIGSTOP, 1),
            (signal.SIGCONT, 1),
            (signal.SIGSTOP, 2),
        ):
            os.kill(child.process.pid, signal_number)
            deadline = time.monotonic() + 10
            while child.is_stopped() != (signal_number == signal.SIGSTOP) and time.monotonic() < deadline:
                time.sleep(0.01)
            with pytest.raises(RunError, match="learner 1 has not answered"):
                ranks._read_message(child, 0.2)
            assert (
                caplog.text.count("Learner 1 is paused by a signal; the run waits at most 30 minutes") == num_warnings
            )
        assert f"`kill -CONT {child.process.pid}` continues it; a second interrupt ends the run" in caplog.text
        assert run_in_thread(lambda: time.sleep(0.1), ranks._require_all_children) is None
    finally:
        ranks.close()
    assert not child.is_stopped()


def config_data(ranks, **changes):
    config = {**KUHN, **SMALL_MODEL, "steps": 4, "warmup": {"updates": 1, "games": 16}, **changes}
    learner = {"leaves": 4, "ranks": ranks, "average": 0.9, "minibatches": 2, **changes.get("learner", {})}
    return {**config, "learner": learner}


def train_and_read_files(folder, ranks, **changes):
    train(config_data(ranks, **changes), run=folder)
    newest_checkpoint = max((folder / "checkpoints").iterdir())
    files = {path.name: path.read_bytes() for path in newest_checkpoint.iterdir() if path.suffix == ".safetensors"}
    assert not (folder / "learners").exists()
    return {**files, "metrics": (folder / "metrics.jsonl").read_bytes()}


LEAGUE = {"matchmaker": {"name": "meta_strategy"}, "league": {"every": 2, "start": True, "restart": True, "plays": 8}}
CRITIC = {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]}
ADAPTERS = {
    "model": {"device": "cpu", "lora": {"rank": 2}},
    "renderer": {"name": "plain"},
    "policies": {"first": {}, "second": {"frozen": True}},
    "roles": {"first": "first", "second": "second"},
}
TWO_LEARNERS = {"league": {"learners": {"main": {}, "exploiter": {"restart": 1.0}}, "every": 2, "start": True}}

REFERENCE = {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}], "warmup": {"updates": 2, "games": 8}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [LEAGUE, CRITIC, TWO_LEARNERS, ADAPTERS, REFERENCE, {"learner": {"order": "reverse_turns"}}],
    ids=["league", "critic", "two", "adapters", "reference", "reverse"],
)
def test_a_run_of_four_learners_has_the_bytes_of_one(forked, tiny_folder, tmp_path, changes):
    if "model" in changes:
        changes = {**changes, "model": {**changes["model"], "name": str(tiny_folder)}}
    assert train_and_read_files(tmp_path / "four", 4, **changes) == train_and_read_files(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_may_resume_with_another_number_of_learners(tmp_path):
    uninterrupted = train_and_read_files(tmp_path / "whole", 1)
    train_and_read_files(tmp_path / "parted", 2, steps=2)
    train(config_data(4), run=tmp_path / "parted", resume=True)
    newest_checkpoint = max((tmp_path / "parted" / "checkpoints").iterdir())
    assert all(
        (newest_checkpoint / name).read_bytes() == uninterrupted[name] for name in uninterrupted if name != "metrics"
    )
    lines = (tmp_path / "parted" / "changes.jsonl").read_text().splitlines()
    assert {"key": "learner.ranks", "new": 4, "old": 2, "step": 2} in map(json.loads, lines)


@pytest.mark.slow
def test_an_error_of_another_learner_keeps_its_message(make_two_learners):
    engine, batch, credit = make_two_learners(learner={"leaves": 4, "ranks": 4})
    engine.learn(batch, credit, step=1, progress=0.1)
    last_leaf = split_into_leaves(batch.pack, batch.pack.with_replies, 4)[
        3
    ]  # the leaf of learner 3; learners 2 and 1 notice its failure before learner 0
    sequence_of_token = np.repeat(np.arange(len(batch.pack.tokens)), batch.pack.tokens)
    turns = batch.pack.turn_of[np.isin(sequence_of_token, last_leaf)]
    assert len(turns) and not np.isin(batch.pack.turn_of[~np.isin(sequence_of_token, last_leaf)], turns).any()
    advantages = credit.advantages.copy()
    advantages[turns] = 1e300
    tensors_before = {name: tensor.clone() for name, tensor in engine.model.tensors().items()}
    with pytest.raises(DivergedError, match="advantages are too large"):
        engine.learn(batch, replace(credit, advantages=advantages), step=2, progress=0.1)
    assert all(tensor.equal(tensors_before[name]) for name, tensor in engine.model.tensors().items())
    assert not engine.ranks._children


@pytest.mark.slow
def test_a_learner_with_other_weights_ends_the_run(make_two_learners):
    engine, batch, credit = make_two_learners()
    engine.learn(batch, credit, step=1, progress=0.1)
    weight = next(iter(engine.model.tensors().values()))
    weight.view(-1)[0] = torch.nextafter(
        weight.view(-1)[0], torch.tensor(9.0)
    )  # a change of the weights without a new ``version``
    with pytest.raises(RunError, match=r"Learner 1 has different weights.*--resume"):
        engine.learn(batch, credit, step=2, progress=0.1)
    assert not engine.ranks._children


@pytest.mark.slow
def test_an_interrupt_ends_an_update_even_with_a_stopped_learner(make_two_learners):
    engine, batch, credit = make_two_learners()
    engine.learn(batch, credit, step=1, progress=0.1)
    process = engine.ranks._children[0].process
    os.kill(process.pid, signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    start_time = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.learn(batch, credit, step=2, progress=0.1)
    assert time.monotonic() - start_time < 30
    assert process.returncode == -signal.SIGKILL
    assert not engine.ranks._children


def test_waiting_for_learners_ends_if_a_learner_ends(monkeypatch):
    monkeypatch.setattr(rank_messages, "CHECK_SECONDS", 0.01)
    checks = iter(range(3))
    event = threading.Event()
    with pytest.raises(StopIteration):
        run_in_thread(event.wait, lambda: next(checks))
    event.set()
    assert run_in_thread(event.wait, lambda: next(checks))
    with pytest.raises(ZeroDivisionError):
        run_in_thread(lambda: 1 / 0, lambda: None)


def test_errors_of_torch_about_a_lost_learner_are_shortened():
    message = str(
        rank_messages.LostError(
            "[/a/gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:63140. This is typically caused by a crash.\nMore."
        )
    )
    assert message.startswith(
        "A learner cannot reach another one: Connection closed by peer [127.0.0.1]:63140. Resume from"
    )
    assert rank_messages.LostError("learner 2 has ended").reason == "learner 2 has ended"


def test_the_fingerprint_of_weights_is_the_sum_of_their_bits(make_two_learners):
    engine, _, _ = make_two_learners()
    sum_before = fingerprint(engine.model)
    tensors = engine.model.tensors()
    assert sum_before == [sum(tensor.view(-1).numpy().view(np.int32).tolist()) for tensor in tensors.values()]
    next(iter(tensors.values())).view(-1)[0].mul_(2.0)  # doubling adds one to the exponent
    assert fingerprint(engine.model) == [sum_before[0] + (1 << 23), *sum_before[1:]]


def test_messages_to_learners_are_read_back_bit_for_bit(make_two_learners):
    _, batch, _ = make_two_learners()
    arrays = {"advantages": np.array([0.1, -1e300, 5e-324]), "value_targets": np.array([np.pi])}
    message_bytes = LearnMessage("main", 7, 1 / 3, arrays, list(batch.episodes)).to_bytes()
    header, _, payload = message_bytes.partition(b"\n")
    restored_message = LearnMessage.from_bytes(json.loads(header)["learn"], payload)
    assert (restored_message.policy, restored_message.step, restored_message.progress) == ("main", 7, 1 / 3)
    assert all(restored_message.arrays[name].tobytes() == arrays[name].tobytes() for name in arrays)
    assert restored_message.episodes == list(batch.episodes)
    means = Means()
    means.add({"loss": 0.1}, 1 / 3)
    means.update_maximum("most", 2.5)
    means.log_ratios += [np.array([0.1, 1e-9]), np.array([]), np.array([3.0])]
    assert Means.from_bytes(means.to_bytes()).result() == means.result()


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ({"ranks": 2}, r"ranks=2 is more than leaves=1.*leaves: 2"),
        ({"ranks": 3, "leaves": 4}, r"ranks=3 is not a power of 2; write 2 or 4"),
    ],
)
def test_learners_without_leaves_are_refused(learner, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**KUHN, "learner": learner})


TWO_POLICIES = {
    "environments": [{"name": "kuhn_poker", "roles": {"player_0": "a", "player_1": "b"}}],
    "learner": {"leaves": 4, "ranks": 2},
}


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ({"leaves": 1}, r"policies.a.learner: ranks=2 is more than leaves=1"),
        ({"ranks": 4}, r"Unknown key of policies.a.learner 'ranks'"),
    ],
)
def test_ranks_are_set_for_the_run_and_each_policy_needs_enough_leaves(learner, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**TWO_POLICIES, "policies": {"a": {"learner": learner}, "b": {}}})
    frozen_config = resolve(
        {**TWO_POLICIES, "policies": {"a": {"learner": {"leaves": 1}, "frozen": True}, "b": {"learner": {"leaves": 8}}}}
    )
    assert (frozen_config.by_policy["b"].learner.leaves, frozen_config.by_policy["b"].learner.ranks) == (8, 2)
    assert resolve(frozen_config.model_dump(mode="json")) == frozen_config


def test_a_run_of_several_policies_may_resume_with_other_ranks():
    policies = {"policies": {"a": {}, "b": {}}}
    with_two_ranks, with_four_ranks = (
        resolve({**TWO_POLICIES, **policies, "learner": {"leaves": leaves, "ranks": ranks}})
        for leaves, ranks in ((4, 2), (4, 4))
    )
    with_eight_leaves = resolve({**TWO_POLICIES, **policies, "learner": {"leaves": 8, "ranks": 4}})
    checkpoint = SimpleNamespace(state={SAVED: fixed_settings(with_two_ranks)})
    assert not describe_edits(with_four_ranks, checkpoint)
    assert "learner.leaves" in describe_edits(with_eight_leaves, checkpoint)


def test_files_of_killed_learners_are_removed_on_resume(tmp_path):
    (tmp_path / "learners" / "state-x").mkdir(parents=True)
    with run_ranks(LocalEngine(resolve({**KUHN, **SMALL_MODEL})), tmp_path):
        assert not (tmp_path / "learners").exists()


# Learners with sharded weights: they compute the exact numbers of one learner, their checkpoints can be loaded by any
# number of learners, and errors say what to write.
SMALL_SHARDS = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 2}}
# random actions replace illegal replies, so returns differ and advantages are not 0
RANDOM_ILLEGAL = {"environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]}
SHARDED_LEARNER = {"leaves": 4, "ranks": 2, "sharding": "fsdp2"}
MISTRAL_SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
CHAT_RENDERER = {"renderer": {"name": "chat"}, "rollout": {"games_per_step": 4, "max_new_tokens": 3}}


def learner_of(ranks, **changes):
    return {
        "leaves": 4,
        "average": 0.9,
        "minibatches": 2,
        "ranks": ranks,
        "sharding": "fsdp2" if ranks > 1 else "none",
        **changes,
    }


def make_engine(ranks, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    return LocalEngine(resolve({**KUHN, **SMALL_SHARDS, "learner": learner, **changes}))


def batch_and_credit(engine):
    batch = engine.batch(episodes_of(engine), progress=0.0)
    return batch, Credit(advantages=np.linspace(-1, 1, len(batch.turns.reward)))


@pytest.mark.slow
def test_two_learners_with_sharded_weights_have_the_bits_of_one(tmp_path, saved):
    one_learner, two_learners = make_engine(1), make_engine(2)
    batch, credit = batch_and_credit(one_learner)
    with run_ranks(two_learners, tmp_path):
        assert saved(two_learners) == saved(one_learner), "they are equal before the first update"
        assert two_learners.imitate(batch.episodes) == pytest.approx(one_learner.imitate(batch.episodes))
        for step in (1, 2, 3):
            assert two_learners.learn(batch, credit, step=step, progress=0.1) == one_learner.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_learners) == saved(one_learner)
        two_learners.take_member(member := snapshot(1))
        one_learner.take_member(member)
        for engine in (two_learners, one_learner):
            engine.learn(batch, credit, step=4, progress=0.1)
            engine.restart(member)
            engine.learn(batch, credit, step=5, progress=0.1)
        assert saved(two_learners) == saved(one_learner)
        assert not two_learners.learner.optimizer.state and one_learner.learner.optimizer.state
        engine_of_other_seed = make_engine(1, seed=4)
        engine_of_other_seed.learn(batch, credit, step=1, progress=0.1)
        engine_of_other_seed.model.version = two_learners.model.version
        (tmp_path / "other").mkdir()
        engine_of_other_seed.save(tmp_path / "other")
        two_learners.restore(tmp_path / "other")
        assert saved(two_learners) == saved(engine_of_other_seed), "restore replaces the weights of all learners"
        if sys.platform == "linux":
            pids = [child.process.pid for child in two_learners.ranks._children]
            assert listening([os.getpid(), *pids]) == {"0100007F"}
            for variable in (b"GLOO_SOCKET_IFNAME=lo\0", b"MALLOC_MMAP_THRESHOLD_=1048576\0"):
                assert all(variable in Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)
        assert not torch.distributed.is_initialized()  # the default process group is left to the caller
    assert not (tmp_path / "learners").exists()


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["none", "leaf", "pass"])
def test_several_learners_skip_turns_without_loss_as_one_does(forked, sync, tmp_path, saved):
    single_engine = make_engine(1)
    sharding_options = {} if sync == "none" else {"gradient_sync": sync}
    two_learners = make_engine(2, learner={"sharding": "none" if sync == "none" else "fsdp2", **sharding_options})
    batch, full_credit = batch_and_credit(single_engine)
    num_turns = len(batch.turns.reward)
    masks = [np.arange(num_turns) % 3 > 0, np.arange(num_turns) < num_turns // 4, np.arange(num_turns) == 5]
    with run_ranks(two_learners, tmp_path):
        for step, mask in enumerate(masks, 1):
            credit = Credit(advantages=full_credit.advantages, trained=mask)
            assert two_learners.learn(batch, credit, step=step, progress=0.1) == single_engine.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_learners) == saved(single_engine)
        unmasked_engine = make_engine(1)
        for step, _ in enumerate(masks, 1):
            unmasked_engine.learn(batch, full_credit, step=step, progress=0.1)
        assert saved(unmasked_engine) != saved(single_engine)


def optimizer_moments(engine, folder):
    folder.mkdir()
    engine.save(folder)
    return safetensors.torch.load_file(folder / "optimizer.safetensors")


FAMILIES = {
    "whole": {},
    "llama": {"model": {"gradient_checkpointing": True}},
    "reference": {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}]},
}
FAMILIES_AND_SYNC = [(name, "leaf") for name in FAMILIES] + [("llama", "pass")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sync"), FAMILIES_AND_SYNC)
def test_leaves_of_several_passes_have_the_bits_of_one_learner(forked, name, sync, chat_folder, tmp_path, saved):
    changes = {
        **CHAT_RENDERER,
        **FAMILIES[name],
        "learner": {"micro_tokens": 40, "minibatches": 1, "gradient_sync": sync},
    }
    folder = chat_folder
    if name == "whole":  # a loss with its own forward pass over the blocks
        folder = shutil.copytree(chat_folder, tmp_path / "mistral")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            MistralForCausalLM(
                MistralConfig(**MISTRAL_SHAPE, vocab_size=len(AutoTokenizer.from_pretrained(folder)))
            ).save_pretrained(folder)
    changes["model"] = {"name": str(folder), **changes.get("model", {})}
    single_engine, two_learners = (
        make_engine(ranks, **{**changes, "learner": dict(changes["learner"])}) for ranks in (1, 2)
    )
    batch, credit = batch_and_credit(single_engine)
    with run_ranks(two_learners, tmp_path):
        if sync == "leaf":
            assert two_learners.imitate(batch.episodes) == pytest.approx(single_engine.imitate(batch.episodes))
        for step in (1, 2):
            metrics_of_two, metrics_of_one = (
                engine.learn(batch, credit, step=step, progress=0.1) for engine in (two_learners, single_engine)
            )
            assert metrics_of_two["gradient_norm"] == pytest.approx(metrics_of_one["gradient_norm"], rel=1e-5)
        moments_of_two, moments_of_one = (
            optimizer_moments(two_learners, tmp_path / "two"),
            optimizer_moments(single_engine, tmp_path / "alone"),
        )
        assert moments_of_two.keys() == moments_of_one.keys()
        assert max(float((moments_of_two[key] - moments_of_one[key]).abs().max()) for key in moments_of_two) < 1e-6
        assert (saved(two_learners) == saved(single_engine)) == (sync == "leaf")


@pytest.mark.slow
@pytest.mark.parametrize("has_critic", [False, True], ids=["policy", "critic"])
def test_16_bit_weights_with_master_weights_have_the_bits_of_one_learner(
    forked, has_critic, chat_folder, tmp_path, saved
):
    model = {"name": str(chat_folder), "dtype": "bfloat16"}
    learner = {"leaves": 2, "master_weights": True, "minibatches": 1, "learning_rate": 1e-4}
    changes = {
        **CHAT_RENDERER,
        **({"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]} if has_critic else {}),
    }
    single_engine, two_learners = (make_engine(ranks, model=model, learner=learner, **changes) for ranks in (1, 2))
    batch, credit = batch_and_credit(single_engine)
    credit = Credit(advantages=credit.advantages, value_targets=credit.advantages if has_critic else None)
    tensors_before = {name: tensor.clone() for name, tensor in single_engine.model.tensors().items()}
    with run_ranks(two_learners, tmp_path):
        for step in (1, 2, 3):
            assert two_learners.learn(batch, credit, step=step, progress=0.1) == single_engine.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_learners) == saved(single_engine)
        moments = optimizer_moments(two_learners, tmp_path / "kept")
        restored_engine = make_engine(1, model=model, learner=learner, **changes)
        for engine in (two_learners, restored_engine):
            engine.restore(tmp_path / "kept")
        for engine in (two_learners, restored_engine, single_engine):
            engine.learn(batch, credit, step=4, progress=0.1)
        assert saved(two_learners) == saved(restored_engine) == saved(single_engine)
    names = [name for name in tensors_before if tensors_before[name].dtype == torch.bfloat16]
    masters = {key: value for key, value in moments.items() if key.endswith("master")}
    assert len(masters) == len(names) and {value.dtype for value in moments.values()} == {torch.float32}


def run_shards(folder, ranks, resume=False, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    train(
        {
            **KUHN,
            **SMALL_SHARDS,
            **RANDOM_ILLEGAL,
            "steps": 4,
            "warmup": {"updates": 1, "games": 16},
            **changes,
            "learner": learner,
        },
        run=folder,
        resume=resume,
    )
    newest_checkpoint = max((folder / "checkpoints").iterdir())
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    gradient_norms = [value for line in lines for name, value in line.items() if name.endswith("gradient_norm")]
    assert gradient_norms and min(gradient_norms) > 0, "without gradients the test compares only initial weights"
    return {path.name: path.read_bytes() for path in newest_checkpoint.iterdir() if path.suffix == ".safetensors"} | {
        "metrics": (folder / "metrics.jsonl").read_bytes()
    }


CRITIC_SHARDS = {
    "credit": {"name": "gae"},
    "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}, {"name": "kl_penalty"}],
}
POLICIES = {
    "environments": [{**RANDOM_ILLEGAL["environments"][0], "roles": {"first": "a", "second": "b"}}],
    "policies": {"a": {}, "b": {"model": {"hidden_size": 24, "layers": 1}, "learner": {"leaves": 8, "average": 0.0}}},
}
REVERSE_TURNS = {"losses": [{"name": "trajectory_dpo"}, {"name": "ppo_clip"}], "learner": {"order": "reverse_turns"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [LEAGUE, CRITIC_SHARDS, TWO_LEARNERS, POLICIES, REVERSE_TURNS],
    ids=["league", "critic", "two", "policies", "whole"],
)
def test_a_run_with_sharded_weights_has_the_bytes_of_one_learner(forked, tmp_path, changes):
    assert run_shards(tmp_path / "four", 4, **changes) == run_shards(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_may_resume_with_any_ranks_sharded_or_not(forked, tmp_path):
    uninterrupted = run_shards(tmp_path / "whole", 1, steps=5, warmup={"updates": 0})
    for step, (ranks, sharding) in enumerate([(2, "fsdp2"), (4, "fsdp2"), (1, "none"), (2, "none"), (1, "fsdp2")], 1):
        files = run_shards(
            tmp_path / "parted",
            ranks,
            resume=step > 1,
            steps=step,
            warmup={"updates": 0},
            learner={"sharding": sharding},
        )
    assert all(
        files[name] == uninterrupted[name] for name in uninterrupted if name != "metrics"
    )  # metrics differ, as the evaluations happen at other steps
    assert "learner.sharding" in (tmp_path / "parted" / "changes.jsonl").read_text()


@pytest.mark.slow
def test_a_learner_that_dies_in_an_all_reduce_ends_the_run(tmp_path):
    single_engine, two_learners = make_engine(1), make_engine(2)
    batch, credit = batch_and_credit(single_engine)
    with run_ranks(two_learners, tmp_path):
        for engine in (single_engine, two_learners):
            engine.learn(batch, credit, step=1, progress=0.1)
        (tmp_path / "kept").mkdir()
        two_learners.save(tmp_path / "kept")
        pid = two_learners.ranks._children[1].process.pid
        os.kill(pid, signal.SIGSTOP)  # learner 0 waits for learner 1 in an all-reduce
        threading.Timer(3.0, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two_learners.learn(batch, credit, step=2, progress=0.1)
        assert not two_learners.ranks._children
        for failing_call in (
            lambda: two_learners.learn(batch, credit, step=2, progress=0.1),
            lambda: two_learners.save(tmp_path / "kept"),
        ):
            with pytest.raises(RunError, match=r"was lost with learners that have ended.*--resume"):
                failing_call()
        two_learners.restore(tmp_path / "kept")
        for engine in (single_engine, two_learners):
            engine.learn(batch, credit, step=2, progress=0.1)
        assert all(
            tensor.equal(single_engine.model.tensors()[name]) for name, tensor in two_learners.model.tensors().items()
        )
        with pytest.raises(DivergedError, match="advantages are too large"):
            two_learners.learn(batch, Credit(advantages=np.full(len(credit.advantages), 1e300)), step=3, progress=0.1)
        assert not two_learners.ranks._children


def test_one_learner_does_not_shard(tmp_path):
    single_engine = make_engine(1, learner={"sharding": "fsdp2"})
    with run_ranks(single_engine, tmp_path):
        assert single_engine.ranks is None and single_engine.policies["main"].moments is None


REFUSED_CHANGES = [
    (
        {"model": {"name": "smollm2-135m", "lora": {"rank": 2}}},
        r"learner.sharding=fsdp2.*adapters.*leave learner.sharding at none, or write model.lora: null",
    ),
    ({"credit": {"name": "oprl"}}, r"credit 'oprl' trains a reward model.*leave learner.sharding at none"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED_CHANGES, ids=["adapters", "process"])
def test_options_without_sharding_are_refused_with_what_to_write(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**KUHN, **changes, "learner": SHARDED_LEARNER})
    resolve({**KUHN, **changes, "learner": {"leaves": 4, "ranks": 2}})


@pytest.mark.slow
def test_the_end_of_a_learner_is_noticed_while_waiting_for_another(tmp_path):
    two_learners = make_engine(2)
    batch, credit = batch_and_credit(two_learners)
    with run_ranks(two_learners, tmp_path):
        two_learners.learn(batch, credit, step=1, progress=0.1)
        first_pid, second_pid = (child.process.pid for child in two_learners.ranks._children)
        os.kill(first_pid, signal.SIGSTOP)
        threading.Timer(1.0, os.kill, (second_pid, signal.SIGKILL)).start()
        start_time = time.monotonic()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two_learners.learn(batch, credit, step=2, progress=0.1)
        assert time.monotonic() - start_time < 60


def test_the_plan_has_the_memory_of_each_learner():
    model, learners = {"hidden_size": 1024, "layers": 12, "heads": 16}, {}
    for ranks in (2, 8):
        config = resolve(
            {**KUHN, "model": model, "learner": {"leaves": 8, "ranks": ranks, "sharding": "fsdp2", "micro_tokens": 512}}
        )
        memory = process_memory(config)
        training, learners[ranks] = memory["training process"].parts, memory["learner"]
        assert training["training"] == training["activations_and_logits"] == 0
        assert (
            learners[ranks].processes == ranks
            and learners[ranks].bytes_each > GIB / 2 + 4 * training["weights"] / ranks
        )
        assert describe(config)["learners"] == {"ranks": ranks, "leaves": 8, "sharding": "fsdp2"}
    sharded_config = resolve({**KUHN, "model": model, "learner": {"leaves": 8, "ranks": 2, "micro_tokens": 512}})
    memory = process_memory(sharded_config)
    training = memory["training process"]
    assert training.parts["training"] == pytest.approx(3 * training.parts["weights"], rel=0.05)
    assert learners[8].bytes_each < learners[2].bytes_each < memory["learner"].bytes_each
    single_config = resolve(
        {**sharded_config.model_dump(mode="json"), "learner": {"sharding": "fsdp2", "micro_tokens": 512}}
    )
    assert process_memory(single_config) == {"training process": training}, "one learner does not shard"

"""Several learner processes of one run give the bytes of one, and the end of one is a clear error."""

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
from sparring.learn.gradient_step import Means, leaves
from sparring.learn.weight_files import fingerprint
from sparring.methods.credit.base import Credit
from sparring.models.memory import GIB
from sparring.run.config_checks import SAVED, binding_settings, describe_edits
from tests.engine.builders import episodes_of
from tests.sockets import listening

KUHN = {"environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}], "threads": 1, "seed": 3}
SMALL = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 1}}


@pytest.fixture
def learners(tmp_path):
    """Return a function that makes an engine, the batch of a step, and two learners, which end after the test."""
    started = []

    def make(**changes):
        config = resolve({**KUHN, **SMALL, "learner": {"leaves": 4, "ranks": 2}, **changes})
        engine = LocalEngine(config)
        engine.ranks = RankZero(config, tmp_path / "learners")
        started.append(engine.ranks)
        return engine, *batch_of(engine)

    yield make
    for ranks in started:
        ranks.close()


@pytest.mark.slow
def test_two_learners_equal_one_and_listen_only_on_loopback(learners, tmp_path):
    engine, batch, credit = learners()
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
    ]  # files of states are removed after reading
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
        for number, warnings in ((signal.SIGCONT, 0), (signal.SIGSTOP, 1), (signal.SIGCONT, 1), (signal.SIGSTOP, 2)):
            os.kill(child.process.pid, number)
            until = time.monotonic() + 10
            while child.is_stopped() != (number == signal.SIGSTOP) and time.monotonic() < until:
                time.sleep(0.01)
            with pytest.raises(RunError, match="learner 1 has not answered"):
                ranks._read_message(child, 0.2)
            assert caplog.text.count("Learner 1 is paused by a signal; the run waits at most 30 minutes") == warnings
        assert f"`kill -CONT {child.process.pid}` continues it; a second interrupt ends the run" in caplog.text
        assert run_in_thread(lambda: time.sleep(0.1), ranks._require_all_children) is None
    finally:
        ranks.close()
    assert not child.is_stopped()


def config_of(ranks, **changes):
    config = {**KUHN, **SMALL, "steps": 4, "warmup": {"updates": 1, "games": 16}, **changes}
    learner = {"leaves": 4, "ranks": ranks, "average": 0.9, "minibatches": 2, **changes.get("learner", {})}
    return {**config, "learner": learner}


def run(folder, ranks, **changes):
    train(config_of(ranks, **changes), run=folder)
    newest = max((folder / "checkpoints").iterdir())
    files = {path.name: path.read_bytes() for path in newest.iterdir() if path.suffix == ".safetensors"}
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
TWO = {"league": {"learners": {"main": {}, "exploiter": {"restart": 1.0}}, "every": 2, "start": True}}

REFERENCE = {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}], "warmup": {"updates": 2, "games": 8}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [LEAGUE, CRITIC, TWO, ADAPTERS, REFERENCE, {"learner": {"order": "reverse_turns"}}],
    ids=["league", "critic", "two", "adapters", "reference", "reverse"],
)
def test_a_run_of_four_learners_has_the_bytes_of_one(forked, tiny_folder, tmp_path, changes):
    if "model" in changes:
        changes = {**changes, "model": {**changes["model"], "name": str(tiny_folder)}}
    assert run(tmp_path / "four", 4, **changes) == run(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_may_resume_with_another_number_of_learners(tmp_path):
    uninterrupted = run(tmp_path / "whole", 1)
    run(tmp_path / "parted", 2, steps=2)
    train(config_of(4), run=tmp_path / "parted", resume=True)
    newest = max((tmp_path / "parted" / "checkpoints").iterdir())
    assert all((newest / name).read_bytes() == uninterrupted[name] for name in uninterrupted if name != "metrics")
    lines = (tmp_path / "parted" / "changes.jsonl").read_text().splitlines()
    assert {"key": "learner.ranks", "new": 4, "old": 2, "step": 2} in map(json.loads, lines)


@pytest.mark.slow
def test_an_error_of_another_learner_keeps_its_message(learners):
    engine, batch, credit = learners(learner={"leaves": 4, "ranks": 4})
    engine.learn(batch, credit, step=1, progress=0.1)
    last_leaf = leaves(batch.pack, batch.pack.with_replies, 4)[
        3
    ]  # the leaf of learner 3, whose failure reaches learners 2 and 1 before learner 0
    sequence = np.repeat(np.arange(len(batch.pack.tokens)), batch.pack.tokens)
    turns = batch.pack.turn_of[np.isin(sequence, last_leaf)]
    assert len(turns) and not np.isin(batch.pack.turn_of[~np.isin(sequence, last_leaf)], turns).any()
    advantages = credit.advantages.copy()
    advantages[turns] = 1e300
    tensors_before = {name: tensor.clone() for name, tensor in engine.model.tensors().items()}
    with pytest.raises(DivergedError, match="advantages are too large"):
        engine.learn(batch, replace(credit, advantages=advantages), step=2, progress=0.1)
    assert all(tensor.equal(tensors_before[name]) for name, tensor in engine.model.tensors().items())
    assert not engine.ranks._children


@pytest.mark.slow
def test_a_learner_with_other_weights_ends_the_run(learners):
    engine, batch, credit = learners()
    engine.learn(batch, credit, step=1, progress=0.1)
    weight = next(iter(engine.model.tensors().values()))
    weight.view(-1)[0] = torch.nextafter(
        weight.view(-1)[0], torch.tensor(9.0)
    )  # a change of the weights without a new ``version``
    with pytest.raises(RunError, match=r"Learner 1 has different weights.*--resume"):
        engine.learn(batch, credit, step=2, progress=0.1)
    assert not engine.ranks._children


@pytest.mark.slow
def test_an_interrupt_ends_an_update_even_with_a_stopped_learner(learners):
    engine, batch, credit = learners()
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


def test_waiting_for_learners_ends_if_one_of_them_ends(monkeypatch):
    monkeypatch.setattr(rank_messages, "CHECK_SECONDS", 0.01)
    looks = iter(range(3))
    for_ever = threading.Event()
    with pytest.raises(StopIteration):
        run_in_thread(for_ever.wait, lambda: next(looks))
    for_ever.set()
    assert run_in_thread(for_ever.wait, lambda: next(looks))
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


def test_the_fingerprint_of_weights_is_the_sum_of_their_bits(learners):
    engine, _, _ = learners()
    sum_before = fingerprint(engine.model)
    tensors = engine.model.tensors()
    assert sum_before == [sum(tensor.view(-1).numpy().view(np.int32).tolist()) for tensor in tensors.values()]
    next(iter(tensors.values())).view(-1)[0].mul_(2.0)  # doubling adds one to the exponent
    assert fingerprint(engine.model) == [sum_before[0] + (1 << 23), *sum_before[1:]]


def test_messages_to_learners_are_read_back_bit_for_bit(learners):
    _, batch, _ = learners()
    arrays = {"advantages": np.array([0.1, -1e300, 5e-324]), "value_targets": np.array([np.pi])}
    data = LearnMessage("main", 7, 1 / 3, arrays, list(batch.episodes)).to_bytes()
    head, _, rest = data.partition(b"\n")
    read = LearnMessage.from_bytes(json.loads(head)["learn"], rest)
    assert (read.policy, read.step, read.progress) == ("main", 7, 1 / 3)
    assert all(read.arrays[name].tobytes() == arrays[name].tobytes() for name in arrays)
    assert read.episodes == list(batch.episodes)
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


SEATS = {
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
        resolve({**SEATS, "policies": {"a": {"learner": learner}, "b": {}}})
    frozen = resolve(
        {**SEATS, "policies": {"a": {"learner": {"leaves": 1}, "frozen": True}, "b": {"learner": {"leaves": 8}}}}
    )
    assert (frozen.by_policy["b"].learner.leaves, frozen.by_policy["b"].learner.ranks) == (8, 2)
    assert resolve(frozen.model_dump(mode="json")) == frozen


def test_a_run_of_several_policies_may_resume_with_other_ranks():
    policies = {"policies": {"a": {}, "b": {}}}
    with_two_ranks, with_four_ranks = (
        resolve({**SEATS, **policies, "learner": {"leaves": leaves, "ranks": ranks}})
        for leaves, ranks in ((4, 2), (4, 4))
    )
    with_eight_leaves = resolve({**SEATS, **policies, "learner": {"leaves": 8, "ranks": 4}})
    latest = SimpleNamespace(state={SAVED: binding_settings(with_two_ranks)})
    assert not describe_edits(with_four_ranks, latest)
    assert "learner.leaves" in describe_edits(with_eight_leaves, latest)


def test_files_of_killed_learners_are_removed_on_resume(tmp_path):
    (tmp_path / "learners" / "state-x").mkdir(parents=True)
    with run_ranks(LocalEngine(resolve({**KUHN, **SMALL})), tmp_path):
        assert not (tmp_path / "learners").exists()


# learners with sharded weights: the bits of one learner, checkpoints for any number of learners, and clear errors
SMALL_SHARDS = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 2}}
# illegal replies have different returns, so that advantages are not 0
GUESSES = {"environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]}
SPLIT = {"leaves": 4, "ranks": 2, "sharding": "fsdp2"}
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
CHAT = {"renderer": {"name": "chat"}, "rollout": {"games_per_step": 4, "max_new_tokens": 3}}


def learner_of(ranks, **changes):
    return {
        "leaves": 4,
        "average": 0.9,
        "minibatches": 2,
        "ranks": ranks,
        "sharding": "fsdp2" if ranks > 1 else "none",
        **changes,
    }


def engine(ranks, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    return LocalEngine(resolve({**KUHN, **SMALL_SHARDS, "learner": learner, **changes}))


def batch_of(engine):
    batch = engine.batch(episodes_of(engine), progress=0.0)
    return batch, Credit(advantages=np.linspace(-1, 1, len(batch.turns.reward)))


@pytest.mark.slow
def test_two_learners_with_sharded_weights_have_the_bits_of_one(tmp_path, saved):
    single_engine, two_ranks = engine(1), engine(2)
    batch, credit = batch_of(single_engine)
    with run_ranks(two_ranks, tmp_path):
        assert saved(two_ranks) == saved(single_engine), "before they have learnt, too"
        assert two_ranks.imitate(batch.episodes) == pytest.approx(single_engine.imitate(batch.episodes))
        for step in (1, 2, 3):
            assert two_ranks.learn(batch, credit, step=step, progress=0.1) == single_engine.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_ranks) == saved(single_engine)
        two_ranks.take_member(member := snapshot(1))
        single_engine.take_member(member)
        for run_shards in (two_ranks, single_engine):
            run_shards.learn(batch, credit, step=4, progress=0.1)
            run_shards.restart(member)
            run_shards.learn(batch, credit, step=5, progress=0.1)
        assert saved(two_ranks) == saved(single_engine)
        assert not two_ranks.learner.optimizer.state and single_engine.learner.optimizer.state
        other_seed = engine(1, seed=4)
        other_seed.learn(batch, credit, step=1, progress=0.1)
        other_seed.model.version = two_ranks.model.version
        (tmp_path / "other").mkdir()
        other_seed.save(tmp_path / "other")
        two_ranks.restore(tmp_path / "other")
        assert saved(two_ranks) == saved(other_seed), "and not what learners held at as many updates"
        if sys.platform == "linux":
            pids = [child.process.pid for child in two_ranks.ranks._children]
            assert listening([os.getpid(), *pids]) == {"0100007F"}
            for variable in (b"GLOO_SOCKET_IFNAME=lo\0", b"MALLOC_MMAP_THRESHOLD_=1048576\0"):
                assert all(variable in Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)
        assert not torch.distributed.is_initialized()  # the default process group is left to the caller
    assert not (tmp_path / "learners").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["none", "leaf", "pass"])
def test_several_learners_skip_turns_without_loss_as_one_does(forked, how, tmp_path, saved):
    single_engine = engine(1)
    sharding_options = {} if how == "none" else {"gradient_sync": how}
    two_ranks = engine(2, learner={"sharding": "none" if how == "none" else "fsdp2", **sharding_options})
    batch, whole = batch_of(single_engine)
    rows = len(batch.turns.reward)
    masks = [np.arange(rows) % 3 > 0, np.arange(rows) < rows // 4, np.arange(rows) == 5]
    with run_ranks(two_ranks, tmp_path):
        for step, mask in enumerate(masks, 1):
            credit = Credit(advantages=whole.advantages, trained=mask)
            assert two_ranks.learn(batch, credit, step=step, progress=0.1) == single_engine.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_ranks) == saved(single_engine)
        unmasked = engine(1)
        for step, _ in enumerate(masks, 1):
            unmasked.learn(batch, whole, step=step, progress=0.1)
        assert saved(unmasked) != saved(single_engine)


def moments(run_shards, folder):
    folder.mkdir()
    run_shards.save(folder)
    return safetensors.torch.load_file(folder / "optimizer.safetensors")


FAMILIES = {
    "whole": {},
    "llama": {"model": {"gradient_checkpointing": True}},
    "reference": {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}]},
}
SYNCED = [(name, "leaf") for name in FAMILIES] + [("llama", "pass")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sync"), SYNCED)
def test_leaves_of_several_passes_have_the_bits_of_one_learner(forked, name, sync, chat_folder, tmp_path, saved):
    changes = {**CHAT, **FAMILIES[name], "learner": {"micro_tokens": 40, "minibatches": 1, "gradient_sync": sync}}
    folder = chat_folder
    if name == "whole":  # a loss with its own forward pass over the blocks
        folder = shutil.copytree(chat_folder, tmp_path / "mistral")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            MistralForCausalLM(
                MistralConfig(**SHAPE, vocab_size=len(AutoTokenizer.from_pretrained(folder)))
            ).save_pretrained(folder)
    changes["model"] = {"name": str(folder), **changes.get("model", {})}
    single_engine, two_ranks = (engine(ranks, **{**changes, "learner": dict(changes["learner"])}) for ranks in (1, 2))
    batch, credit = batch_of(single_engine)
    with run_ranks(two_ranks, tmp_path):
        if sync == "leaf":
            assert two_ranks.imitate(batch.episodes) == pytest.approx(single_engine.imitate(batch.episodes))
        for step in (1, 2):
            metrics_of_two, metrics_of_one = (
                run_shards.learn(batch, credit, step=step, progress=0.1) for run_shards in (two_ranks, single_engine)
            )
            assert metrics_of_two["gradient_norm"] == pytest.approx(metrics_of_one["gradient_norm"], rel=1e-5)
        moments_of_two, moments_of_one = (
            moments(two_ranks, tmp_path / "two"),
            moments(single_engine, tmp_path / "alone"),
        )
        assert moments_of_two.keys() == moments_of_one.keys()
        assert max(float((moments_of_two[key] - moments_of_one[key]).abs().max()) for key in moments_of_two) < 1e-6
        assert (saved(two_ranks) == saved(single_engine)) == (sync == "leaf")


@pytest.mark.slow
@pytest.mark.parametrize("critic", [False, True], ids=["policy", "critic"])
def test_16_bit_weights_with_master_weights_have_the_bits_of_one_learner(forked, critic, chat_folder, tmp_path, saved):
    model = {"name": str(chat_folder), "dtype": "bfloat16"}
    shares = {"leaves": 2, "master_weights": True, "minibatches": 1, "learning_rate": 1e-4}
    changes = {
        **CHAT,
        **({"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]} if critic else {}),
    }
    single_engine, two_ranks = (engine(ranks, model=model, learner=shares, **changes) for ranks in (1, 2))
    batch, credit = batch_of(single_engine)
    credit = Credit(advantages=credit.advantages, value_targets=credit.advantages if critic else None)
    tensors_before = {name: tensor.clone() for name, tensor in single_engine.model.tensors().items()}
    with run_ranks(two_ranks, tmp_path):
        for step in (1, 2, 3):
            assert two_ranks.learn(batch, credit, step=step, progress=0.1) == single_engine.learn(
                batch, credit, step=step, progress=0.1
            )
        assert saved(two_ranks) == saved(single_engine)
        stored = moments(two_ranks, tmp_path / "kept")
        restored_engine = engine(1, model=model, learner=shares, **changes)
        for run_shards in (two_ranks, restored_engine):
            run_shards.restore(tmp_path / "kept")
        for run_shards in (two_ranks, restored_engine, single_engine):
            run_shards.learn(batch, credit, step=4, progress=0.1)
        assert saved(two_ranks) == saved(restored_engine) == saved(single_engine)
    names = [name for name in tensors_before if tensors_before[name].dtype == torch.bfloat16]
    masters = {key: value for key, value in stored.items() if key.endswith("master")}
    assert len(masters) == len(names) and {value.dtype for value in stored.values()} == {torch.float32}


def run_shards(folder, ranks, resume=False, **changes):
    learner = learner_of(ranks, **changes.pop("learner", {}))
    train(
        {
            **KUHN,
            **SMALL_SHARDS,
            **GUESSES,
            "steps": 4,
            "warmup": {"updates": 1, "games": 16},
            **changes,
            "learner": learner,
        },
        run=folder,
        resume=resume,
    )
    newest = max((folder / "checkpoints").iterdir())
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    norms = [value for line in lines for name, value in line.items() if name.endswith("gradient_norm")]
    assert norms and min(norms) > 0, "else nothing is learnt, and all weights are those of the beginning"
    return {path.name: path.read_bytes() for path in newest.iterdir() if path.suffix == ".safetensors"} | {
        "metrics": (folder / "metrics.jsonl").read_bytes()
    }


CRITIC_SHARDS = {
    "credit": {"name": "gae"},
    "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}, {"name": "kl_penalty"}],
}
POLICIES = {
    "environments": [{**GUESSES["environments"][0], "roles": {"first": "a", "second": "b"}}],
    "policies": {"a": {}, "b": {"model": {"hidden_size": 24, "layers": 1}, "learner": {"leaves": 8, "average": 0.0}}},
}
WHOLE = {"losses": [{"name": "trajectory_dpo"}, {"name": "ppo_clip"}], "learner": {"order": "reverse_turns"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [LEAGUE, CRITIC_SHARDS, TWO, POLICIES, WHOLE], ids=["league", "critic", "two", "policies", "whole"]
)
def test_a_run_with_sharded_weights_has_the_bytes_of_one_learner(forked, tmp_path, changes):
    assert run_shards(tmp_path / "four", 4, **changes) == run_shards(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_may_resume_with_any_ranks_sharded_or_not(forked, tmp_path):
    uninterrupted = run_shards(tmp_path / "whole", 1, steps=5, warmup={"updates": 0})
    for step, (ranks, sharding) in enumerate([(2, "fsdp2"), (4, "fsdp2"), (1, "none"), (2, "none"), (1, "fsdp2")], 1):
        parts = run_shards(
            tmp_path / "parted",
            ranks,
            resume=step > 1,
            steps=step,
            warmup={"updates": 0},
            learner={"sharding": sharding},
        )
    assert all(
        parts[name] == uninterrupted[name] for name in uninterrupted if name != "metrics"
    )  # metrics differ, as the evaluations are at other steps
    assert "learner.sharding" in (tmp_path / "parted" / "changes.jsonl").read_text()


@pytest.mark.slow
def test_a_learner_that_dies_in_an_all_reduce_ends_the_run(tmp_path):
    single_engine, two_ranks = engine(1), engine(2)
    batch, credit = batch_of(single_engine)
    with run_ranks(two_ranks, tmp_path):
        for run_shards in (single_engine, two_ranks):
            run_shards.learn(batch, credit, step=1, progress=0.1)
        (tmp_path / "kept").mkdir()
        two_ranks.save(tmp_path / "kept")
        pid = two_ranks.ranks._children[1].process.pid
        os.kill(pid, signal.SIGSTOP)  # learner 0 waits for it in an all-reduce
        threading.Timer(3.0, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two_ranks.learn(batch, credit, step=2, progress=0.1)
        assert not two_ranks.ranks._children
        for failing_call in (
            lambda: two_ranks.learn(batch, credit, step=2, progress=0.1),
            lambda: two_ranks.save(tmp_path / "kept"),
        ):
            with pytest.raises(RunError, match=r"was lost with learners that have ended.*--resume"):
                failing_call()
        two_ranks.restore(tmp_path / "kept")
        for run_shards in (single_engine, two_ranks):
            run_shards.learn(batch, credit, step=2, progress=0.1)
        assert all(
            tensor.equal(single_engine.model.tensors()[name]) for name, tensor in two_ranks.model.tensors().items()
        )
        with pytest.raises(DivergedError, match="advantages are too large"):
            two_ranks.learn(batch, Credit(advantages=np.full(len(credit.advantages), 1e300)), step=3, progress=0.1)
        assert not two_ranks.ranks._children


def test_one_learner_shards_nothing(tmp_path):
    single_engine = engine(1, learner={"sharding": "fsdp2"})
    with run_ranks(single_engine, tmp_path):
        assert single_engine.ranks is None and single_engine.policies["main"].moments is None


REFUSED = [
    (
        {"model": {"name": "smollm2-135m", "lora": {"rank": 2}}},
        r"learner.sharding=fsdp2.*adapters.*leave learner.sharding at none, or write model.lora: null",
    ),
    ({"credit": {"name": "oprl"}}, r"credit 'oprl' trains a reward model.*leave learner.sharding at none"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=["adapters", "process"])
def test_options_without_sharding_are_refused_with_what_to_write(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**KUHN, **changes, "learner": SPLIT})
    resolve({**KUHN, **changes, "learner": {"leaves": 4, "ranks": 2}})


@pytest.mark.slow
def test_the_end_of_a_learner_is_noticed_while_waiting_for_another(tmp_path):
    two_ranks = engine(2)
    batch, credit = batch_of(two_ranks)
    with run_ranks(two_ranks, tmp_path):
        two_ranks.learn(batch, credit, step=1, progress=0.1)
        first_pid, second_pid = (child.process.pid for child in two_ranks.ranks._children)
        os.kill(first_pid, signal.SIGSTOP)
        threading.Timer(1.0, os.kill, (second_pid, signal.SIGKILL)).start()
        start_time = time.monotonic()
        with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
            two_ranks.learn(batch, credit, step=2, progress=0.1)
        assert time.monotonic() - start_time < 60


def test_the_plan_has_the_memory_of_each_learner():
    tiny, learners = {"hidden_size": 1024, "layers": 12, "heads": 16}, {}
    for ranks in (2, 8):
        config = resolve(
            {**KUHN, "model": tiny, "learner": {"leaves": 8, "ranks": ranks, "sharding": "fsdp2", "micro_tokens": 512}}
        )
        memory = process_memory(config)
        training, learners[ranks] = memory["training process"].parts, memory["learner"]
        assert training["training"] == training["activations_and_logits"] == 0
        assert (
            learners[ranks].processes == ranks
            and learners[ranks].bytes_each > GIB / 2 + 4 * training["weights"] / ranks
        )
        assert describe(config)["learners"] == {"ranks": ranks, "leaves": 8, "sharding": "fsdp2"}
    sharded_config = resolve({**KUHN, "model": tiny, "learner": {"leaves": 8, "ranks": 2, "micro_tokens": 512}})
    memory = process_memory(sharded_config)
    training = memory["training process"]
    assert training.parts["training"] == pytest.approx(3 * training.parts["weights"], rel=0.05)
    assert learners[8].bytes_each < learners[2].bytes_each < memory["learner"].bytes_each
    single_config = resolve(
        {**sharded_config.model_dump(mode="json"), "learner": {"sharding": "fsdp2", "micro_tokens": 512}}
    )
    assert process_memory(single_config) == {"training process": training}, "one learner splits nothing"

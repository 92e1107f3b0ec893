"""Several learners of one run: the bytes of one, whatever else a run does, and clear errors where one of them ends."""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.api import train
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.child_process import ChildProcess
from sparring.core.errors import ConfigError, DivergedError, RunError
from sparring.engine.local import LocalEngine
from sparring.engine.ranks import messages as rank_messages
from sparring.engine.ranks.data_parallel import Ranks
from sparring.engine.ranks.messages import LearnMessage, in_a_thread
from sparring.engine.run_processes import learning
from sparring.league.seating import starts
from sparring.learn.gradient_step import Means, leaves
from sparring.learn.weights import fingerprint
from sparring.methods.credit.base import Credit
from sparring.run.config_checks import SAVED, edits, saved
from tests.sockets import listening

KUHN = {"environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}], "threads": 1, "seed": 3}
SMALL = {"rollout": {"games_per_step": 24}, "model": {"hidden_size": 16, "layers": 1}}


@pytest.fixture
def learners(tmp_path):
    """Return what makes an engine, the batch of a step, and two learners of it; they are ended at the end."""
    made = []

    def make(**changes):
        config = resolve({**KUHN, **SMALL, "learner": {"leaves": 4, "ranks": 2}, **changes})
        engine = LocalEngine(config)
        engine.ranks = Ranks(config, tmp_path / "learners")
        made.append(engine.ranks)
        matchmaker = bind("league.matchmakers", "mirror")
        specs = starts(0, games=engine.environments, rollout=config.rollout, matchmaker=matchmaker, members=(), root=engine.root, progress=0.0)
        batch = engine.batch(engine.play(specs).episodes, progress=0.0)
        advantages = np.linspace(-1, 1, len(batch.turns.reward))
        return engine, batch, Credit(advantages=advantages)

    yield make
    for ranks in made:
        ranks.close()


@pytest.mark.slow
def test_two_learners_have_the_weights_and_metrics_of_one_and_listen_on_the_loopback_alone(learners, tmp_path):
    engine, batch, credit = learners()
    alone = LocalEngine(engine.config)
    for step in (1, 2):
        found = engine.learn(batch, credit, step=step, progress=0.1)
        assert found == alone.learn(batch, credit, step=step, progress=0.1)
    ours, theirs = engine.model.tensors(), alone.model.tensors()
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    if sys.platform == "linux":
        pids = [os.getpid(), *(child.process.pid for child in engine.ranks._children)]
        assert listening(pids) == {"0100007F"}
    assert not torch.distributed.is_initialized()  # the default group is the caller's
    assert [path.name for path in (tmp_path / "learners").iterdir()] == ["store"]  # states are gone when they are read
    os.kill(engine.ranks._children[0].process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"Learner 1 has ended.*--resume"):
        engine.learn(batch, credit, step=3, progress=0.1)
    assert engine.learn(batch, credit, step=3, progress=0.1)  # started again, with the weights of now
    assert not any(tensor.isnan().any() for tensor in engine.model.tensors().values())


def test_a_learner_that_is_stopped_is_named_once_while_it_is_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("sparring.engine.ranks.data_parallel.LOOK", 0.02)
    ranks = Ranks(SimpleNamespace(learner=SimpleNamespace(ranks=2)), tmp_path / "learners")
    child = ChildProcess(1, b"", ranks._heard, command=lambda hear, say: ["sleep", "60"], environment={})
    ranks._children = [child]
    try:
        for number, warnings in ((signal.SIGCONT, 0), (signal.SIGSTOP, 1), (signal.SIGCONT, 1), (signal.SIGSTOP, 2)):
            os.kill(child.process.pid, number)
            until = time.monotonic() + 10
            while child.is_stopped() != (number == signal.SIGSTOP) and time.monotonic() < until:
                time.sleep(0.01)
            with pytest.raises(RunError, match="learner 1 has not answered"):
                ranks._answer(child, 0.2)
            assert caplog.text.count("Learner 1 is stopped, and the run waits for it, at most 30 minutes") == warnings
        assert f"`kill -CONT {child.process.pid}` lets it go on; interrupting the run a second time ends the run" in caplog.text
        assert in_a_thread(lambda: time.sleep(0.1), ranks._look) is None
    finally:
        ranks.close()
    assert not child.is_stopped()


def configured(ranks, **changes):
    config = {**KUHN, **SMALL, "steps": 4, "warmup": {"updates": 1, "games": 16}, **changes}
    learner = {"leaves": 4, "ranks": ranks, "average": 0.9, "minibatches": 2, **changes.get("learner", {})}
    return {**config, "learner": learner}


def run(folder, ranks, **changes):
    train(configured(ranks, **changes), run=folder)
    last = max((folder / "checkpoints").iterdir())
    files = {path.name: path.read_bytes() for path in last.iterdir() if path.suffix == ".safetensors"}
    assert not (folder / "learners").exists()
    return {**files, "metrics": (folder / "metrics.jsonl").read_bytes()}


LEAGUE = {"matchmaker": {"name": "meta_strategy"}, "league": {"every": 2, "start": True, "restart": True, "plays": 8}}
CRITIC = {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]}
ADAPTERS = {"model": {"device": "cpu", "lora": {"rank": 2}}, "renderer": {"name": "plain"}, "policies": {"first": {}, "second": {"frozen": True}}, "roles": {"first": "first", "second": "second"}}
TWO = {"league": {"learners": {"main": {}, "exploiter": {"restart": 1.0}}, "every": 2, "start": True}}

REFERENCE = {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty"}], "warmup": {"updates": 2, "games": 8}}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [LEAGUE, CRITIC, TWO, ADAPTERS, REFERENCE, {"learner": {"order": "reverse_turns"}}], ids=["league", "critic", "two", "adapters", "reference", "reverse"])
def test_a_run_of_four_learners_leaves_the_bytes_of_one(forked, tiny_folder, tmp_path, changes):
    if "model" in changes:
        changes = {**changes, "model": {**changes["model"], "name": str(tiny_folder)}}
    assert run(tmp_path / "four", 4, **changes) == run(tmp_path / "one", 1, **changes)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_learners(tmp_path):
    whole = run(tmp_path / "whole", 1)
    run(tmp_path / "parted", 2, steps=2)
    train(configured(4), run=tmp_path / "parted", resume=True)
    last = max((tmp_path / "parted" / "checkpoints").iterdir())
    assert all((last / name).read_bytes() == whole[name] for name in whole if name != "metrics")
    lines = (tmp_path / "parted" / "changes.jsonl").read_text().splitlines()
    assert {"key": "learner.ranks", "new": 4, "old": 2, "step": 2} in map(json.loads, lines)


@pytest.mark.slow
def test_an_error_of_another_learner_is_told_in_its_words(learners):
    engine, batch, credit = learners(learner={"leaves": 4, "ranks": 4})
    engine.learn(batch, credit, step=1, progress=0.1)
    last = leaves(batch.pack, batch.pack.spoken, 4)[3]  # of learner 3, whom 2 and 1 lose before learner 0 does
    sequence = np.repeat(np.arange(len(batch.pack.tokens)), batch.pack.tokens)
    turns = batch.pack.turn_of[np.isin(sequence, last)]
    assert len(turns) and not np.isin(batch.pack.turn_of[~np.isin(sequence, last)], turns).any()
    advantages = credit.advantages.copy()
    advantages[turns] = 1e300
    before = {name: tensor.clone() for name, tensor in engine.model.tensors().items()}
    with pytest.raises(DivergedError, match="advantages are too large"):
        engine.learn(batch, replace(credit, advantages=advantages), step=2, progress=0.1)
    assert all(tensor.equal(before[name]) for name, tensor in engine.model.tensors().items())
    assert not engine.ranks._children


@pytest.mark.slow
def test_a_learner_of_other_weights_ends_the_run(learners):
    engine, batch, credit = learners()
    engine.learn(batch, credit, step=1, progress=0.1)
    weight = next(iter(engine.model.tensors().values()))
    weight.view(-1)[0] = torch.nextafter(weight.view(-1)[0], torch.tensor(9.0))  # behind the back of ``version``
    with pytest.raises(RunError, match=r"Learner 1 has other weights.*--resume"):
        engine.learn(batch, credit, step=2, progress=0.1)
    assert not engine.ranks._children


@pytest.mark.slow
def test_an_interrupt_ends_an_update_though_a_learner_is_stopped(learners):
    engine, batch, credit = learners()
    engine.learn(batch, credit, step=1, progress=0.1)
    process = engine.ranks._children[0].process
    os.kill(process.pid, signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.learn(batch, credit, step=2, progress=0.1)
    assert time.monotonic() - began < 30
    assert process.returncode == -signal.SIGKILL
    assert not engine.ranks._children


def test_what_waits_for_learners_ends_when_one_has_ended(monkeypatch):
    monkeypatch.setattr(rank_messages, "LOOK", 0.01)
    looks = iter(range(3))
    for_ever = threading.Event()
    with pytest.raises(StopIteration):
        in_a_thread(for_ever.wait, lambda: next(looks))
    for_ever.set()
    assert in_a_thread(for_ever.wait, lambda: next(looks))
    with pytest.raises(ZeroDivisionError):
        in_a_thread(lambda: 1 / 0, lambda: None)


def test_what_torch_says_of_a_lost_learner_is_told_without_its_file_and_advice():
    said = str(rank_messages.LostError("[/a/gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:63140. This is typically caused by a crash.\nMore."))
    assert said.startswith("A learner cannot reach another one: Connection closed by peer [127.0.0.1]:63140. The run goes on")
    assert rank_messages.LostError("learner 2 has ended").why == "learner 2 has ended"


def test_a_fingerprint_is_the_sum_of_bits(learners):
    engine, _, _ = learners()
    before = fingerprint(engine.model)
    tensors = engine.model.tensors()
    assert before == [sum(tensor.view(-1).numpy().view(np.int32).tolist()) for tensor in tensors.values()]
    next(iter(tensors.values())).view(-1)[0].mul_(2.0)  # one more in the exponent
    assert fingerprint(engine.model) == [before[0] + (1 << 23), *before[1:]]


def test_what_is_learnt_from_and_what_is_counted_travel_to_the_bit(learners):
    _, batch, _ = learners()
    arrays = {"advantages": np.array([0.1, -1e300, 5e-324]), "value_targets": np.array([np.pi])}
    data = LearnMessage("main", 7, 1 / 3, arrays, list(batch.episodes)).to_bytes()
    head, _, rest = data.partition(b"\n")
    found = LearnMessage.from_bytes(json.loads(head)["learn"], rest)
    assert (found.policy, found.step, found.progress) == ("main", 7, 1 / 3)
    assert all(found.arrays[name].tobytes() == arrays[name].tobytes() for name in arrays)
    assert found.episodes == list(batch.episodes)
    means = Means()
    means.add({"loss": 0.1}, 1 / 3)
    means.maximum("most", 2.5)
    means.log_ratios += [np.array([0.1, 1e-9]), np.array([]), np.array([3.0])]
    assert Means.from_bytes(means.to_bytes()).result() == means.result()


@pytest.mark.parametrize(("learner", "said"), [({"ranks": 2}, r"ranks=2 is more than leaves=1.*leaves: 2"), ({"ranks": 3, "leaves": 4}, r"ranks=3 is no power of 2; write 2 or 4")])
def test_learners_without_leaves_are_refused(learner, said):
    with pytest.raises(ConfigError, match=said):
        resolve({**KUHN, "learner": learner})


SEATS = {"environments": [{"name": "kuhn_poker", "roles": {"player_0": "a", "player_1": "b"}}], "learner": {"leaves": 4, "ranks": 2}}


@pytest.mark.parametrize(("learner", "said"), [({"leaves": 1}, r"policies.a.learner: ranks=2 is more than leaves=1"), ({"ranks": 4}, r"Unknown key of policies.a.learner 'ranks'")])
def test_learners_are_of_the_run_and_each_policy_has_leaves_for_all(learner, said):
    with pytest.raises(ConfigError, match=said):
        resolve({**SEATS, "policies": {"a": {"learner": learner}, "b": {}}})
    frozen = resolve({**SEATS, "policies": {"a": {"learner": {"leaves": 1}, "frozen": True}, "b": {"learner": {"leaves": 8}}}})
    assert (frozen.by_policy["b"].learner.leaves, frozen.by_policy["b"].learner.ranks) == (8, 2)
    assert resolve(frozen.model_dump(mode="json")) == frozen


def test_a_run_of_several_policies_goes_on_with_another_number_of_learners():
    policies = {"policies": {"a": {}, "b": {}}}
    two, four = (resolve({**SEATS, **policies, "learner": {"leaves": leaves, "ranks": ranks}}) for leaves, ranks in ((4, 2), (4, 4)))
    more = resolve({**SEATS, **policies, "learner": {"leaves": 8, "ranks": 4}})
    latest = SimpleNamespace(state={SAVED: saved(two)})
    assert not edits(four, latest)
    assert "learner.leaves" in edits(more, latest)


def test_what_killed_learners_left_goes_when_one_learns_on(tmp_path):
    (tmp_path / "learners" / "state-x").mkdir(parents=True)
    with learning(LocalEngine(resolve({**KUHN, **SMALL})), tmp_path):
        assert not (tmp_path / "learners").exists()

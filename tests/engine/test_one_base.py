"""Members of a league that are adapters over one base: their turns are one batch, and the bytes are those of one by one."""

import pytest
import torch

from sparring.config import resolve
from sparring.core.refs import LEARNER, snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.models import joined
from sparring.models.samplers import in_process
from sparring.play.spec import EpisodeSpec

CONFIG = {
    "threads": 1, "environments": [{"name": "kuhn_poker", "options": {"style": "full"}, "illegal": {"rule": "random"}}], "model": {"lora": {"rank": 2}},
    "renderer": {"name": "chat"}, "rollout": {"max_new_tokens": 4},
}


def engine(folder, *members, **changes):
    config = {**CONFIG, **changes}
    run = LocalEngine(resolve({**config, "model": {**config["model"], "name": str(folder)}}))
    for step in members:
        run.take_member(snapshot(step))
        with torch.no_grad():
            for number, weight in enumerate(run.model.parameters()):
                weight.add_(0.01 * (1 + number % 3))
        run.model.version += 1
    return run


def specs(run, players, count=12):
    game, root = run.environments[0][0], Stream.from_seed(3)
    return [
        EpisodeSpec(game=game, episode_id=n, group_id=n, deal=root.child(n), stream=root.child("play").child(n), seats=(LEARNER, players[n % len(players)])[:: 1 - 2 * (n % 2)], trained=(True, False))
        for n in range(count)
    ]  # fmt: skip


def replies(found):
    return [episode.turns for episode in found.episodes]


@pytest.fixture
def calls(monkeypatch):
    found, whole = [], joined.JoinedBase.join

    def join(self, members):
        found.append(sorted(len(member.adapters) for member in members))
        return whole(self, members)

    monkeypatch.setattr(joined.JoinedBase, "join", join)
    return found


def test_the_bytes_of_plays_are_those_of_members_one_by_one(chat_folder, calls, monkeypatch):
    run = engine(chat_folder, 1, 2, 3)
    players = [snapshot(1), snapshot(2), snapshot(3)]
    together = replies(run.play(specs(run, players)))
    assert max(map(len, calls)) == 4, "the learner and three snapshots"
    assert len({turn.agent for turns in together for turn in turns}) == 4
    few = engine(chat_folder, 1, 2, 3)
    some = specs(few, players)
    assert replies(few.play(some[:5])) + replies(few.play(some[5:])) == together, "nor do they depend on who is beside"
    calls.clear()
    monkeypatch.setattr(in_process, "member_of", lambda model: None)
    alone = engine(chat_folder, 1, 2, 3)
    assert replies(alone.play(specs(alone, players))) == together
    assert not calls


def test_policies_over_one_base_are_asked_together(chat_folder, calls):
    policies = {"leader": {}, "base": {"frozen": True, "model": {"lora": None}}}
    run = engine(chat_folder, 1, policies=policies, roles={"first": "leader", "second": "base"})
    run.play(specs(run, [snapshot(1).of("leader"), LEARNER.of("base")]))
    assert calls and all(base == 0 < other for base, other in calls), "the base itself, beside the leader or its snapshot"


def test_models_that_are_trained_whole_are_asked_alone(chat_folder, calls):
    run = engine(chat_folder, 1, model={"lora": None})
    run.play(specs(run, [snapshot(1)], 4))
    assert not calls

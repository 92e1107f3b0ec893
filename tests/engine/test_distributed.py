"""Samplers with their own copy of the weights use the newest ones, and workers take newer weights during play."""

import itertools
import json

import numpy as np
import pytest
import torch

from sparring.config import resolve
from sparring.core.records import LEARNER, PUBLISHED, snapshot
from sparring.engine import logprob_check
from sparring.engine.local import LocalEngine
from sparring.engine.workers.units import WorkUnit, answer_of, task_bytes, weights_message
from sparring.engine.workers.worker import Worker, serve
from sparring.engine.workers.worker_weights import PublishedWeights
from sparring.learn.pack import Reader, pack
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from tests.engine.builders import specs_of

APART = '''
from sparring.models.samplers.in_process import InProcessSampler

SLOT = "samplers"
PUBLISHED = []


class Apart(InProcessSampler):
    """Draws replies from a copy of the weights, which changes only when others are published."""

    def __init__(self, model):
        super().__init__(model.clone(), cache_bytes=1 << 20)

    def publish(self, weights, version):
        PUBLISHED.append(version)
        return super().publish(weights, version)


def apart(model):
    """Draw replies from a copy."""
    return Apart(model)
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    (folder / "apart.py").write_text(APART)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import apart

        yield apart


@pytest.fixture
def separate_sampler(module):
    module.PUBLISHED.clear()
    return module


def engine(name):
    model = {"hidden_size": 16, "heads": 2}
    config = {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 32}, "model": model, "threads": 1}
    return LocalEngine(
        resolve({**config, "learner": {"average": 0.5, "learning_rate": 0.01}, "sampler": {"name": name}})
    )


def rounds(run, count):
    methods, state, replies = Methods.of(run.config), RunState(), []
    for _ in range(count):
        outcome = play_round(run.config, run, methods, state)
        state = outcome.state
        replies.append(
            [
                (turn.reply, [segment.logprobs for segment in turn.segments])
                for episode in outcome.episodes
                for turn in episode.turns
            ]
        )
    return replies


def test_weights_are_published_before_they_are_used(separate_sampler):
    separate_engine, in_process_engine = engine("apart.apart"), engine("in_process")
    assert rounds(separate_engine, 3) == rounds(in_process_engine, 3)
    assert separate_sampler.PUBLISHED == [1, 2]


def test_ema_weights_are_published_and_snapshots_do_not_change(separate_sampler):
    run = engine("apart.apart")
    run.take_member(snapshot(0))
    snapshot_agent, average = run.agent(snapshot(0)), run.agent(PUBLISHED)
    rounds(run, 2)
    assert run.agent(PUBLISHED) is average
    assert average.sampler.version == run.policies["main"].published.version == 2
    for name, weights in run.policies["main"].published.tensors().items():
        assert (average.sampler.model.tensors()[name] == weights).all()
    run.agent(snapshot(0))
    assert snapshot_agent.sampler.version == 0
    assert run.agent(LEARNER).sampler.version == 2


# newer weights during play: earlier tokens stay, and every sampled segment stores the version of its weights
CONFIG = {
    "name": "renewed",
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "matchmaker": {"name": "mirror"},
    "scale": {"fleet": "processes", "workers": 1, "lag": 2, "order": "fresh"},
}
TOLERANCE = 1e-4


@pytest.fixture
def setting(tmp_path):
    config = resolve(CONFIG)
    engine = LocalEngine(config)
    published = PublishedWeights(engine, tmp_path / "weights")
    older = published.files(published.pin_newest())
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    engine.model.version += 1
    newer = published.files(published.pin_newest())
    unit = WorkUnit(tuple(specs_of(engine)), older, 0.0)
    return config.model_dump(mode="json"), engine, older, newer, unit


def runs_of(episodes):
    runs = []
    for episode in episodes:
        for turn in episode.turns:
            sampled = [segment for segment in turn.segments if segment.kind == "sampled"]
            runs += [
                (turn.moment, position, segment.weights_version, len(segment.ids))
                for position, segment in enumerate(sampled)
            ]
            assert turn.weights_version == sampled[-1].weights_version
    return runs


def versions(episodes):
    return {version for _, _, version, _ in runs_of(episodes)}


def differences(engine, episodes, version):
    policy = engine.policies["main"]
    reader = Reader(
        policy.model, temperature=policy.params.temperature, micro_tokens=policy.config.learner.micro_tokens
    )
    gaps = []
    for episode in episodes:
        data = pack([episode])
        turns = sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))  # in the order of the turn table
        parts = [segment for turn in turns for segment in turn.segments if segment.kind == "sampled"]
        chosen = np.array([segment.weights_version == version for segment in parts for _ in segment.ids])
        gaps += np.abs(reader.logprobs(data) - data.logprobs)[chosen].tolist()
    return np.array(gaps)


def publish_at_call(worker, files, call):
    calls = itertools.count(1)
    return lambda: worker.renew(weights_message(files), {}) if next(calls) == call else None


def message_source(messages):

    def hear():
        if not messages:
            raise EOFError
        return messages.pop(0)

    return hear


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_an_episode_takes_newer_weights_between_turns_and_tokens(setting, call):
    config, engine, older, newer, unit = setting
    worker = Worker(config)
    answer = worker.answer(task_bytes({0: unit}), {}, publish_at_call(worker, newer, call))
    episodes = answer_of(answer, {0: unit}).rollouts[0].episodes
    older_version, newer_version = older[0].version, newer[0].version
    for episode in episodes:
        in_order = [version for _, _, version, _ in sorted(runs_of([episode]))]
        assert in_order == sorted(in_order)
    initial = {version for moment, position, version, _ in runs_of(episodes) if (moment, position) == (0, 0)}
    assert initial == ({newer_version} if call == 1 else {older_version})
    assert versions(episodes) == ({newer_version} if call == 1 else {older_version, newer_version})
    assert any(position for _, position, _, _ in runs_of(episodes)) == (call in (2, 4))  # a reply has two tokens
    assert differences(engine, episodes, newer_version).max() < TOLERANCE  # the engine has the newer weights
    assert call == 1 or differences(engine, episodes, older_version).max() > 0.01


@pytest.mark.parametrize(("call", "share_is_some"), [(1, True), (2, False)])
def test_episodes_across_an_update_are_not_scored_by_the_newer_weights(setting, monkeypatch, call, share_is_some):
    config, _, _, newer, unit = setting
    monkeypatch.setattr(logprob_check, "EPISODES_PER_CHECK", 1)
    worker = Worker(config)
    episodes = (
        answer_of(worker.answer(task_bytes({0: unit}), {}, publish_at_call(worker, newer, call)), {0: unit})
        .rollouts[0]
        .episodes
    )
    if call == 2:  # no episode has a turn with older weights
        episodes = [
            episode for episode in episodes if {turn.weights_version for turn in episode.turns} == {newer[0].version}
        ]
        assert episodes
    checks = logprob_check.check_logprobs(worker.players, episodes)
    assert bool(checks) == share_is_some and all(check.largest < TOLERANCE for check in checks)


def test_older_or_unreadable_weights_change_nothing(setting):
    config, _, older, newer, unit = setting
    worker = Worker(config)
    worker.renew(weights_message(newer), {})  # newer weights of players that have not been used yet
    answer_without_news = worker.answer(task_bytes({0: unit}), {})
    missing_files = [file._replace(file=file.file + ".gone", version=9) for file in newer]
    for news in (older, missing_files):
        assert (
            worker.answer(task_bytes({0: unit}), {}, lambda news=news: worker.renew(weights_message(news), {}))
            == answer_without_news
        )
    worker.renew(weights_message(newer), {})
    assert worker.answer(task_bytes({0: unit}), {}) == answer_without_news  # a task names the weights it starts with


def test_a_worker_takes_newer_weights_during_and_between_tasks(setting):
    config, _, older, newer, unit = setting
    task, news = (task_bytes({0: unit}), {}), (weights_message(newer), {})
    messages = [(json.dumps(config).encode(), {}), task, news, news, task]
    answers = []
    serve(message_source(messages), answers.append, lambda: bool(messages) and messages[0] is news)
    assert json.loads(answers[0]).keys() == {"ready"} and len(answers) == 3
    first_rollout, second_rollout = (answer_of(answer, {0: unit}).rollouts[0].episodes for answer in answers[1:])
    assert versions(first_rollout) == {newer[0].version}  # received before the first call
    assert versions(second_rollout) == {older[0].version}


def test_in_pinned_order_a_worker_ignores_newer_weights_during_play(setting):
    config, _, older, newer, unit = setting
    config = {**config, "scale": {**config["scale"], "order": "pinned"}}
    task, news = (task_bytes({0: unit}), {}), (weights_message(newer), {})
    messages, answers = [(json.dumps(config).encode(), {}), task, news], []
    serve(message_source(messages), answers.append, lambda: bool(messages))
    assert versions(answer_of(answers[1], {0: unit}).rollouts[0].episodes) == {older[0].version}

"""A sampler with a copy of the weights uses the newest version; workers load newer weights during an episode."""

import itertools
import json
from typing import NamedTuple

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

SEPARATE_SAMPLER = '''
from sparring.models.samplers.in_process import InProcessSampler

SLOT = "samplers"
PUBLISHED = []


class SeparateSampler(InProcessSampler):
    """Draws replies from a copy of the weights, which changes only when new weights are published."""

    def __init__(self, model):
        super().__init__(model.clone(), cache_bytes=1 << 20)

    def publish(self, weights, version):
        PUBLISHED.append(version)
        return super().publish(weights, version)


def separate_sampler(model):
    """Return a sampler that draws replies from a copy of the model."""
    return SeparateSampler(model)
'''


@pytest.fixture(scope="module")
def sampler_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plug_ins")
    (folder / "separate_sampler.py").write_text(SEPARATE_SAMPLER)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import separate_sampler

        yield separate_sampler


@pytest.fixture
def cleared_sampler_module(sampler_module):
    sampler_module.PUBLISHED.clear()
    return sampler_module


def make_engine(sampler):
    model = {"hidden_size": 16, "heads": 2}
    config = {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 32}, "model": model, "threads": 1}
    return LocalEngine(
        resolve({**config, "learner": {"average": 0.5, "learning_rate": 0.01}, "sampler": {"name": sampler}})
    )


def replies_of_rounds(engine, num_rounds):
    methods, state, replies = Methods.of(engine.config), RunState(), []
    for _ in range(num_rounds):
        outcome = play_round(engine.config, engine, methods, state)
        state = outcome.state
        replies.append(
            [
                (turn.reply, [segment.logprobs for segment in turn.segments])
                for episode in outcome.episodes
                for turn in episode.turns
            ]
        )
    return replies


def test_weights_are_published_before_they_are_used(cleared_sampler_module):
    separate_engine, in_process_engine = make_engine("separate_sampler.separate_sampler"), make_engine("in_process")
    assert replies_of_rounds(separate_engine, 3) == replies_of_rounds(in_process_engine, 3)
    assert cleared_sampler_module.PUBLISHED == [1, 2]


def test_ema_weights_are_published_and_snapshots_do_not_change(cleared_sampler_module):
    engine = make_engine("separate_sampler.separate_sampler")
    engine.take_member(snapshot(0))
    snapshot_agent, ema_agent = engine.agent(snapshot(0)), engine.agent(PUBLISHED)
    replies_of_rounds(engine, 2)
    assert engine.agent(PUBLISHED) is ema_agent
    assert ema_agent.sampler.version == engine.policies["main"].published.version == 2
    for name, weights in engine.policies["main"].published.tensors().items():
        assert (ema_agent.sampler.model.tensors()[name] == weights).all()
    engine.agent(snapshot(0))
    assert snapshot_agent.sampler.version == 0
    assert engine.agent(LEARNER).sampler.version == 2


# The second half: weights that arrive during an episode. Tokens already sampled stay;
# every sampled segment stores the version of the weights that sampled it.
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
def weights_setup(tmp_path):
    config = resolve(CONFIG)
    engine = LocalEngine(config)
    published = PublishedWeights(engine, tmp_path / "weights")
    older_files = published.files(published.pin_newest())
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    engine.model.version += 1
    newer_files = published.files(published.pin_newest())
    unit = WorkUnit(tuple(specs_of(engine)), older_files, 0.0)
    return config.model_dump(mode="json"), engine, older_files, newer_files, unit


class SampledSegment(NamedTuple):
    """Where a sampled segment is in its episode, and the version of the weights that sampled it."""

    moment: int
    index_in_turn: int
    version: int


def sampled_segments(episodes):
    result = []
    for episode in episodes:
        for turn in episode.turns:
            sampled = [segment for segment in turn.segments if segment.kind == "sampled"]
            result += [
                SampledSegment(turn.moment, index, segment.weights_version) for index, segment in enumerate(sampled)
            ]
            assert turn.weights_version == sampled[-1].weights_version
    return result


def weights_versions(episodes):
    return {segment.version for segment in sampled_segments(episodes)}


def logprob_differences(engine, episodes, version):
    policy = engine.policies["main"]
    reader = Reader(
        policy.model, temperature=policy.params.temperature, micro_tokens=policy.config.learner.micro_tokens
    )
    differences = []
    for episode in episodes:
        packed = pack([episode])
        turns = sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))  # in the order of the turn table
        parts = [segment for turn in turns for segment in turn.segments if segment.kind == "sampled"]
        has_version = np.array([segment.weights_version == version for segment in parts for _ in segment.ids])
        differences += np.abs(reader.logprobs(packed) - packed.logprobs)[has_version].tolist()
    return np.array(differences)


def renew_at_call(worker, files, call_number):
    """Return a function that a worker calls before each token; at one call the worker loads newer weights."""
    call_numbers = itertools.count(1)
    return lambda: worker.load_newer_weights(weights_message(files), {}) if next(call_numbers) == call_number else None


def receiver(messages):
    def receive():
        if not messages:
            raise EOFError
        return messages.pop(0)

    return receive


@pytest.mark.parametrize("call_number", [1, 2, 3, 4])
def test_an_episode_takes_newer_weights_between_turns_and_tokens(weights_setup, call_number):
    config, engine, older_files, newer_files, unit = weights_setup
    worker = Worker(config)
    answer = worker.answer(task_bytes({0: unit}), {}, renew_at_call(worker, newer_files, call_number))
    episodes = answer_of(answer, {0: unit}).rollouts[0].episodes
    older_version, newer_version = older_files[0].version, newer_files[0].version
    for episode in episodes:
        versions_in_order = [segment.version for segment in sorted(sampled_segments([episode]))]
        assert versions_in_order == sorted(versions_in_order)
    segments = sampled_segments(episodes)
    first_versions = {segment.version for segment in segments if (segment.moment, segment.index_in_turn) == (0, 0)}
    assert first_versions == ({newer_version} if call_number == 1 else {older_version})
    assert weights_versions(episodes) == ({newer_version} if call_number == 1 else {older_version, newer_version})
    # a reply has two tokens, so calls 2 and 4 fall between the tokens of a reply, which then has two segments
    assert any(segment.index_in_turn for segment in segments) == (call_number in (2, 4))
    assert logprob_differences(engine, episodes, newer_version).max() < TOLERANCE  # the engine has the newer weights
    assert call_number == 1 or logprob_differences(engine, episodes, older_version).max() > 0.01


@pytest.mark.parametrize(("call_number", "is_checked"), [(1, True), (2, False)])
def test_logprob_check_skips_episodes_with_older_weights(weights_setup, monkeypatch, call_number, is_checked):
    config, _, _, newer_files, unit = weights_setup
    monkeypatch.setattr(logprob_check, "CHECK_INTERVAL", 1)
    worker = Worker(config)
    episodes = (
        answer_of(worker.answer(task_bytes({0: unit}), {}, renew_at_call(worker, newer_files, call_number)), {0: unit})
        .rollouts[0]
        .episodes
    )
    if call_number == 2:  # no episode has a turn with older weights
        episodes = [
            episode
            for episode in episodes
            if {turn.weights_version for turn in episode.turns} == {newer_files[0].version}
        ]
        assert episodes
    checks = logprob_check.check_logprobs(worker.players, episodes)
    assert bool(checks) == is_checked and all(check.largest_difference < TOLERANCE for check in checks)


def test_older_or_unreadable_weights_change_nothing(weights_setup):
    config, _, older_files, newer_files, unit = weights_setup
    worker = Worker(config)
    worker.load_newer_weights(weights_message(newer_files), {})  # newer weights of players that have not been used yet
    expected_answer = worker.answer(task_bytes({0: unit}), {})
    missing_files = [file._replace(file=file.file + ".gone", version=9) for file in newer_files]
    for news in (older_files, missing_files):
        assert (
            worker.answer(
                task_bytes({0: unit}), {}, lambda news=news: worker.load_newer_weights(weights_message(news), {})
            )
            == expected_answer
        )
    worker.load_newer_weights(weights_message(newer_files), {})
    assert worker.answer(task_bytes({0: unit}), {}) == expected_answer  # a task names the weights it starts with


def test_a_worker_takes_newer_weights_during_and_between_tasks(weights_setup):
    config, _, older_files, newer_files, unit = weights_setup
    task, news = (task_bytes({0: unit}), {}), (weights_message(newer_files), {})
    messages = [(json.dumps(config).encode(), {}), task, news, news, task]
    answers = []
    serve(receiver(messages), answers.append, has_message=lambda: bool(messages) and messages[0] is news)
    assert json.loads(answers[0]).keys() == {"ready"} and len(answers) == 3
    first_rollout, second_rollout = (answer_of(answer, {0: unit}).rollouts[0].episodes for answer in answers[1:])
    assert weights_versions(first_rollout) == {
        newer_files[0].version
    }  # the weights arrived before the first token was sampled
    assert weights_versions(second_rollout) == {older_files[0].version}


def test_in_pinned_order_a_worker_ignores_newer_weights_during_play(weights_setup):
    config, _, older_files, newer_files, unit = weights_setup
    config = {**config, "scale": {**config["scale"], "order": "pinned"}}
    task, news = (task_bytes({0: unit}), {}), (weights_message(newer_files), {})
    messages, answers = [(json.dumps(config).encode(), {}), task, news], []
    serve(receiver(messages), answers.append, has_message=lambda: bool(messages))
    assert weights_versions(answer_of(answers[1], {0: unit}).rollouts[0].episodes) == {older_files[0].version}

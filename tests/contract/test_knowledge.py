"""The contract of knowledge plug-ins: they score the episodes of a step, with a state that is JSON."""

import copy
import json

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.methods.knowledge.base import KnowledgeRequest, replies, with_scores
from tests.methods.knowledge.rps_plays import GAME, request_in_shares

SHARES = {"rock": 0.4, "paper": 0.3, "scissors": 0.2, "spock": 0.05, "lizard": 0.05}


@pytest.fixture(scope="module")
def steps():
    return [request_in_shares(SHARES, step=step) for step in range(3)]


@pytest.mark.parametrize("name", registry.names("knowledge"))
def test_scores_are_deterministic_and_the_state_survives_json(name, steps):
    for preset in (None, *registry.load("knowledge", name).presets):
        update, state = registry.bind("knowledge", name, preset=preset), {}
        for step in steps:
            state_json, episodes_before = json.dumps(state), copy.deepcopy(step.episodes)
            result = update(step, state)
            second_result = update(step, json.loads(state_json))
            assert json.dumps(state) == state_json and step.episodes == episodes_before, (
                "a plug-in must not change its arguments"
            )
            assert result == second_result
            assert all(isinstance(value, float) for value in result.metrics.values())
            episodes = with_scores(step.episodes, result.scores)
            assert any(
                reply.score is not None for episode in episodes for turn in episode.turns for reply in replies(turn)
            )
            state = json.loads(json.dumps(result.state))
            assert state == result.state


@pytest.mark.parametrize("name", registry.names("knowledge"))
def test_a_step_without_episodes_is_no_error(name, steps):
    update = registry.bind("knowledge", name)
    state = update(steps[0], {}).state
    request_without_episodes = KnowledgeRequest(
        episodes=[], environments={GAME.name: GAME}, step=1, stream=Stream.from_seed(0)
    )
    result = update(request_without_episodes, state)
    assert list(result.scores) == [] and result.state == state

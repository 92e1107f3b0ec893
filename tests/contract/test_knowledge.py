"""What all knowledge must keep, for every file found in the slot: it judges the plays of a step by a state of JSON alone."""

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
def test_it_judges_is_the_same_again_and_goes_through_json(name, steps):
    for preset in (None, *registry.load("knowledge", name).presets):
        bound, state = registry.bind("knowledge", name, preset=preset), {}
        for step in steps:
            before, record = json.dumps(state), copy.deepcopy(step.episodes)
            judged = bound(step, state)
            again = bound(step, json.loads(before))
            assert json.dumps(state) == before and step.episodes == record, "it changes nothing that it was given"
            assert judged == again
            assert all(isinstance(value, float) for value in judged.metrics.values())
            scored = with_scores(step.episodes, judged.scores)
            assert any(
                reply.score is not None for episode in scored for turn in episode.turns for reply in replies(turn)
            )
            state = json.loads(json.dumps(judged.state))
            assert state == judged.state


@pytest.mark.parametrize("name", registry.names("knowledge"))
def test_no_plays_are_no_error(name, steps):
    bound = registry.bind("knowledge", name)
    state = bound(steps[0], {}).state
    empty = KnowledgeRequest(episodes=[], environments={GAME.name: GAME}, step=1, stream=Stream.from_seed(0))
    judged = bound(empty, state)
    assert list(judged.scores) == [] and judged.state == state

"""Fixtures: an environment with a tiny model in every seat and a context strategy; a check of the ids sent to it."""

import pytest

from sparring.config.plugins import registry
from sparring.core.records import SamplingParams
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.models.language_model import LanguageModel
from sparring.models.render.plain import plain
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.players.policy import policy
from sparring.play.rollout import play
from tests.play.plays import Recorder, make_specs


class ContextGame:
    def __init__(self, name, options, context, rule="random", max_new_tokens=3, context_length=512):
        self.game = make_game(name, options=options, illegal={"rule": rule})
        self.context_plugin = registry.bind("context", context.pop("name"), context)
        words = {*self.game.vocabulary(), *getattr(self.context_plugin.plugin.module, "WORDS", ())}
        tokenizer = tiny_tokenizer(words)
        network = tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(0), context=context_length)
        self.model = LanguageModel(network, tokenizer)
        self.renderer, self.recorder = plain(tokenizer), Recorder(self.model)
        params = SamplingParams(max_new_tokens=max_new_tokens)
        self.agent = policy(
            sampler=self.recorder, renderer=self.renderer, params=params, name="learner", context=self.context_plugin
        )

    def specs(self, num_episodes=6, seed=0, **changes):
        return make_specs(self.game, num_episodes, seed, **changes)

    def play(self, num_episodes=6, seed=0, **changes):
        return play(self.specs(num_episodes, seed, **changes), {"learner": self.agent}, retries=0)

    def text(self, ids):
        return " ".join(self.model.tokenizer.convert_ids_to_tokens(list(ids)))


def sampled_prefixes(episodes):
    result = []
    for episode in episodes:
        conversations = {}
        for turn in episode.turns:
            for segment in turn.segments:
                ids = conversations.setdefault((turn.seat, turn.conversation), ())
                if segment.kind == "sampled" and segment.ids:
                    result.append(ids)
                conversations[turn.seat, turn.conversation] = ids + segment.ids
    return result


@pytest.fixture
def context_game():
    return ContextGame


@pytest.fixture
def check_ids_sent():
    def check_sent_ids(game, episodes):
        assert sorted(sampled_prefixes(episodes)) == sorted(game.recorder.sent)

    return check_sent_ids

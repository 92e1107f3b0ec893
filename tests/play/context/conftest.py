"""A tiny model in every seat of an environment, under a context strategy, and the ids that were sent to it."""

import pytest

from sparring.config.plugins import registry
from sparring.core.records import SamplingParams
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.models.language_model import LanguageModel
from sparring.models.render.plain import plain
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.players.policy import policy
from sparring.play.rollout import EpisodeSpec, play
from tests.play import plays


class Table:
    """Plays of one environment by a tiny model of random weights."""

    def __init__(self, name, options, context, rule="random", tokens=3, longest=512):
        self.game = make_game(name, options=options, illegal={"rule": rule})
        self.bound = registry.bind("context", context.pop("name"), context)
        words = {*self.game.vocabulary(), *getattr(self.bound.plugin.module, "WORDS", ())}
        tokenizer = tiny_tokenizer(words)
        network = tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(0), context=longest)
        self.model = LanguageModel(network, tokenizer)
        self.renderer, self.recorder = plain(tokenizer), plays.Recorder(self.model)
        params = SamplingParams(max_new_tokens=tokens)
        self.agent = policy(sampler=self.recorder, renderer=self.renderer, params=params, name="learner", context=self.bound)

    def specs(self, plays=6, seed=0, **changes):
        root, seats = Stream.from_seed(seed), self.game.num_seats
        return [
            EpisodeSpec(
                **{
                    "game": self.game,
                    "episode_id": number,
                    "group_id": number,
                    "deal": root.child("deal").child(number),
                    "stream": root.child("play").child(number),
                    "seats": ("learner",) * seats,
                    "trained": (True,) * seats,
                    **changes,
                }
            )
            for number in range(plays)
        ]

    def play(self, plays=6, seed=0, **changes):
        return play(self.specs(plays, seed, **changes), {"learner": self.agent}, retries=0)

    def text(self, ids):
        return " ".join(self.model.tokenizer.convert_ids_to_tokens(list(ids)))


def prefixes(episodes):
    """Return what each reply was sampled after, from the segments of its conversation alone."""
    found = []
    for episode in episodes:
        conversations = {}
        for turn in episode.turns:
            for segment in turn.segments:
                held = conversations.setdefault((turn.seat, turn.conversation), ())
                if segment.kind == "sampled" and segment.ids:
                    found.append(held)
                conversations[turn.seat, turn.conversation] = held + segment.ids
    return found


@pytest.fixture
def table():
    return Table


@pytest.fixture
def lawful():
    """Checks that the recorded segments are the ids that were sent to the model, reply by reply."""

    def check(table, episodes):
        assert sorted(prefixes(episodes)) == sorted(table.recorder.sent)

    return check

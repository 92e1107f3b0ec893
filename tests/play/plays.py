"""Agents, episode specs and random episodes for tests of rollouts."""

from sparring.config.plugins import registry
from sparring.core.records import SamplingParams
from sparring.core.rng import Stream
from sparring.models.language_model import LanguageModel
from sparring.models.render.plain import plain
from sparring.models.samplers.in_process import in_process
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.players.policy import policy
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec


class Recorder:
    """A sampler that passes requests to another one and stores the ids of each request."""

    def __init__(self, model):
        self.inner, self.model, self.sent = in_process(model), model, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        self.sent += [request.ids for request in requests]
        return self.inner.submit(requests, params, stop_ids)


def tiny_learner(game, max_new_tokens=2):
    tokenizer = tiny_tokenizer(game.vocabulary())
    model = LanguageModel(tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(0)), tokenizer)
    recorder = Recorder(model)
    params = SamplingParams(max_new_tokens=max_new_tokens)
    return policy(sampler=recorder, renderer=plain(tokenizer), params=params, name="learner"), recorder


def make_specs(game, num_episodes, seed=0, name="learner", group_size=1, **fields):
    deals, streams = (Stream.from_seed(seed).child(stream_name) for stream_name in ("deal", "play"))
    shared_fields = {"game": game, "seats": (name,) * game.num_seats, "trained": (True,) * game.num_seats, **fields}
    return [
        EpisodeSpec(
            episode_id=number,
            group_id=number // group_size,
            deal=deals.child(number // group_size),
            stream=streams.child(number),
            **shared_fields,
        )
        for number in range(num_episodes)
    ]


def random_episodes(game, num_episodes=20, agent="random", seed=3, **options):
    return play(make_specs(game, num_episodes, seed, agent), {agent: registry.bind("players", agent, options)()})

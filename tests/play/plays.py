"""Agents, episode specs and random episodes that tests of rollouts share."""

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
    """Passes requests on to a sampler and remembers the exact ids that were sent."""

    def __init__(self, model):
        self.inner, self.model, self.sent = in_process(model), model, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        self.sent += [request.ids for request in requests]
        return self.inner.submit(requests, params, stop_ids)


def learner(game, max_new_tokens=2):
    tokenizer = tiny_tokenizer(game.vocabulary())
    model = LanguageModel(tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(0)), tokenizer)
    recorder = Recorder(model)
    params = SamplingParams(max_new_tokens=max_new_tokens)
    return policy(sampler=recorder, renderer=plain(tokenizer), params=params, name="learner"), recorder


def specs(game, count, seed=0, name="learner", group_size=1, **fields):
    deals, plays = (Stream.from_seed(seed).child(stream_name) for stream_name in ("deal", "play"))
    shared_fields = {"game": game, "seats": (name,) * game.num_seats, "trained": (True,) * game.num_seats, **fields}
    return [
        EpisodeSpec(
            episode_id=i,
            group_id=i // group_size,
            deal=deals.child(i // group_size),
            stream=plays.child(i),
            **shared_fields,
        )
        for i in range(count)
    ]


def random_episodes(game, number=20, agent="random", seed=3, **options):
    return play(specs(game, number, seed, agent), {agent: registry.bind("players", agent, options)()})

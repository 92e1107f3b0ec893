"""The language model's own policy: what exact evaluation says is what play does."""

import numpy as np
import pytest

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.records import SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.matches import play_matches
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.ops.statistics import wilson_interval
from sparring.play.players.base import TextAgent
from sparring.play.players.policy import policy
from sparring.play.players.random import RandomAgent
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec


class Passes(TextAgent):
    def choose(self, state, seat, stream):
        return "pass"


def untrained(game, *, seed=3, **params):
    tokenizer = tiny_tokenizer(game.vocabulary())
    network = tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(seed), hidden_size=16, layers=1, heads=2, context=64)
    model = LanguageModel(network, tokenizer)
    renderer = bind("render", "plain")(tokenizer)
    return policy(sampler=bind("samplers", "in_process")(model), renderer=renderer, params=SamplingParams(max_new_tokens=2, **params))


@pytest.mark.always
@pytest.mark.parametrize("temperature", [1.0, 0.2])  # the weights of seed 186 say "bet" often when sharpened
def test_probabilities_of_actions_are_the_frequencies_of_play(temperature):
    game = make_game("kuhn_poker")
    agent = untrained(game, seed=186, temperature=temperature)
    stream = Stream.from_seed(0)
    specs = [
        EpisodeSpec(
            game=game, episode_id=i, group_id=i, deal=stream.child("deal").child(i), stream=stream.child("play").child(i),
            seats=("me", "you") if i % 2 else ("you", "me"), trained=(False, False),
        )
        for i in range(12_000)
    ]
    replies = {}
    for episode in play(specs, {"me": agent, "you": Passes("you")}):
        seat = episode.agents.index("me")
        turn = next(turn for turn in episode.turns if turn.seat == seat)
        replies.setdefault((seat, turn.state_key), []).append(None if turn.truncated else turn.reply)
    assert len(replies) == 6  # each card, first to act and after a pass
    queries = [query for query in enumerate_info_states(game).queries if (query.seat, query.key) in replies]
    for query, row in zip(queries, agent.action_logprobs(queries), strict=True):
        said = replies[query.seat, query.key]
        for action, logprob in zip(query.legal_actions, row, strict=True):
            interval = wilson_interval(said.count(action), len(said), level=0.9999)
            assert interval.low < np.exp(logprob) < interval.high


@pytest.mark.parametrize(("name", "options"), [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("leduc_poker", {}), ("tiny_hanabi", {})])
def test_an_untrained_model_is_near_uniform_and_mostly_illegal(name, options):
    game = make_game(name, options=options)
    report = nash_conv(game, enumerate_info_states(game), untrained(game))
    assert report.nash_conv > 0.5
    assert 0.9 < report.illegal_mass < 1.0
    assert 0.9 < report.illegal_mass_reached < 1.0


def test_a_match_asks_no_more_plays_at_once_than_the_run_does_so_that_its_cache_holds_them():
    """With 200 plays at once a small KV cache holds none of them until their next turn; the results are the same."""
    model = {"hidden_size": 16, "layers": 1, "heads": 1}
    changes = {"threads": 1, "sampler": {"name": "in_process", "cache_bytes": 40_000}, "rollout": {"in_flight": 8}}
    run = LocalEngine(resolve({"environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}], "model": model, **changes}))
    agent, found = run.agent("policy"), {}
    for room in (agent.in_flight, None):
        agent.in_flight = room
        agent.sampler.refresh()
        before = agent.sampler.tokens_computed
        report = play_matches(run.environments[0][0], agent, RandomAgent("random"), games_per_seat=100, stream=Stream.from_seed(0))
        found[room] = agent.sampler.tokens_computed - before, report
    assert found[8][1] == found[None][1] and found[8][0] < 0.7 * found[None][0]

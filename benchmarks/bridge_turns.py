"""What a bridge adds to each turn: milliseconds beside the library alone and our loop alone.

The library alone plays the recorded actions of the same episodes with the same seeds. Our loop
alone plays an environment that repeats the recorded prompts and legal actions. Run it in the
environment of `make bridges`: .venv-bridges/bin/python benchmarks/bridge_turns.py
"""

import argparse
import warnings

from common import median_seconds, self_play_specs
from published import record, settings

from sparring.core.records import Observation
from sparring.environments.bridges.base import library_seed
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import complete_environment
from sparring.play.players.random import random
from sparring.play.rollout import play

warnings.filterwarnings("ignore")
GAMES = {
    "textarena": {"game": "TicTacToe-v0"},
    "pettingzoo": {"game": "classic/connect_four-v3"},
    "gymnasium": {"game": "FrozenLake-v1"},
    "reasoning_gym": {"game": "leg_counting"},
}
NUM_EPISODES, REPEATS = 200, 5


class Recorded:
    """An environment that repeats what the turns of recorded episodes showed."""

    def __init__(self, game, episodes):
        self.roles, self.max_turns = game.roles, game.max_turns
        self.illegal = {"rule": "retry"}
        self.by_deal = {episode.seed: episode.turns for episode in episodes}

    def reset(self, stream):
        return RecordedPlay(self.by_deal[stream.key], len(self.roles))


class RecordedPlay:
    def __init__(self, turns, seats):
        self.turns, self.number, self.returns = turns, 0, (0.0,) * seats

    @property
    def done(self):
        return self.number == len(self.turns)

    def due(self):
        return () if self.done else (self.turns[self.number].seat,)

    def legal(self, seat):
        return self.turns[self.number].legal_actions or None

    def sample(self, seat, stream):
        return self.turns[self.number].reply

    def observe(self, seat):
        turn = self.turns[self.number]
        return Observation(prompt=turn.prompt, key=turn.state_key, view=turn.view)

    def step(self, replies):
        self.number += 1


def play_textarena(game, seed, actions):
    """Play actions in the library alone."""
    environment = game.make()
    environment.reset(num_players=game.num_seats, seed=seed)
    for action in actions:
        environment.get_observation()
        environment.step(action)


def play_pettingzoo(game, seed, actions):
    """Play actions in the library alone."""
    environment = game.make()
    environment.reset(seed=seed)
    for action in actions:
        environment.observe(environment.agent_selection)
        environment.step(game.wording.actions.index(action))


def play_gymnasium(game, seed, actions):
    """Play actions in the library alone, with the text of every state."""
    environment = game.make()
    environment.reset(seed=seed)
    for action in actions:
        environment.render()
        environment.step(game.wording.actions.index(action))


def play_reasoning_gym(game, seed, actions):
    """Score a reply in the library alone."""
    question = game.start(seed)
    for action in actions:
        game.questions.score_answer(answer=action, entry=question)


def milliseconds(name, options, count):
    """Return milliseconds per turn: through the bridge, the library alone, our loop alone."""
    game = make_game(name, options=options)
    agents = {"random": random()}
    episodes = play(self_play_specs(game, count, "random"), agents)
    turns = sum(len(episode.turns) for episode in episodes)
    specs = self_play_specs(game, count, "random")
    seeds = (
        [spec.deal.child("start").integer(0, game.problems) for spec in specs]
        if name == "reasoning_gym"
        else [library_seed(spec.deal) for spec in specs]
    )
    recorded = complete_environment("recorded", Recorded(game, episodes))
    recorded.illegal = game.illegal

    def library_alone():
        for seed, episode in zip(seeds, episodes, strict=True):
            globals()[f"play_{name}"](game, seed, [turn.action for turn in episode.turns])

    work = (
        lambda: play(self_play_specs(game, count, "random"), agents),
        library_alone,
        lambda: play(self_play_specs(recorded, count, "random"), agents),
    )
    return [1000 * median_seconds(part, repeats=REPEATS, warm_up=1) / turns for part in work]


options, rows = settings(argparse.ArgumentParser(description=__doc__)), []
for name, game_options in GAMES.items():
    bridge, library, loop = milliseconds(name, game_options, 5 if options.quick else NUM_EPISODES)
    rows.append(
        {
            "bridge": f"{name}: {game_options['game']}",
            "ms/turn": bridge,
            "library ms/turn": library,
            "loop ms/turn": loop,
            "added ms/turn": bridge - library - loop,
        }
    )
record("bridge_turns", rows, options)

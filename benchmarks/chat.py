"""A real chat model on a CPU: tokens per second of decode, forward and update, prefill per unique token, peak memory.

SmolLM2-135M with adapters plays tic-tac-toe against itself (many turns per conversation) as ``mars/tictactoe-smol`` has it.
``prefill ratio`` is the number of positions that the sampler computed, replies included, over the tokens of all
conversations, each counted once: what every turn tells and says. Games share their rules, so it can be below one.
"""

import resource
import time

import torch
from common import record, self_play_specs

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.recipe import apply_overrides, load_recipe
from sparring.rollout.play import RolloutCounts
from sparring.rollout.table import turn_table

GAMES = 8


def timed(work):
    """Return what a call gives, and its seconds."""
    began = time.perf_counter()
    outcome = work()
    return outcome, time.perf_counter() - began


def measure(recipe):
    """Return one row."""
    changes = [f"rollout.games_per_step={GAMES}", "evaluation.exact=false", "games.0.illegal={rule: random}"]  # games to their end
    changes.append("sampler={name: in_process}")  # with its default of 1 GiB for keys and values
    config = resolve(apply_overrides(load_recipe(recipe), changes))
    engine = LocalEngine(config)
    specs = self_play_specs(engine.games[0][0], GAMES, "learner")
    episodes, playing = timed(lambda: engine.play(specs, RolloutCounts()))
    sampler = engine.agents["learner"].sampler
    segments = [segment for episode in episodes for turn in episode.turns for segment in turn.segments]
    unique, said = sum(len(s.ids) for s in segments), sum(len(s.ids) for s in segments if s.kind == "sampled")
    data = engine.pack(episodes)
    with torch.no_grad():
        _, forward = timed(lambda: [engine.learner._forward(engine.model, part) for part in engine.learner._parts(data, _all(data))])
    advantages = torch.randn(len(data.turn_of), generator=torch.Generator().manual_seed(0)).double().numpy()
    _, update = timed(lambda: engine.update(data, advantages, None, step=0, progress=0.0))
    return {
        "recipe": recipe,
        "games": GAMES,
        "turns": len(turn_table(episodes).reward),
        "conversation tokens": unique,
        "prefill ratio": sampler.tokens_computed / unique,
        "play tokens/s": unique / playing,
        "sampled tokens/s": said / playing,
        "forward tokens/s": unique / forward,
        "update tokens/s": unique / update,
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _all(data):
    """Return the numbers of all sequences of a pack."""
    return torch.arange(len(data.distinct)).numpy()


if __name__ == "__main__":
    record("chat", [measure("mars/tictactoe-smol"), measure("mars/kuhn-smol")])

"""A pretrained chat model on a CPU: tokens per second of decode, forward and update, prefill per
unique token, and peak memory.

SmolLM2-135M with adapters plays against itself with the settings of the recipe (games in flight,
KV cache). There are only a few games, and a random move replaces an illegal reply, so that
conversations have many turns. ``prefill ratio`` is the number of positions that the sampler
computed, replies included, divided by the tokens of all conversations (prompts and replies, each
counted once). Games share the text of their rules, so the ratio can be below one.
"""

import argparse
import multiprocessing
import resource
import time

import numpy as np
import torch
from common import self_play_specs
from published import record, settings

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.records import Credit
from sparring.engine.local import LocalEngine
from sparring.play.turn_table import turn_table

RECIPES = ("mars/tictactoe-smol", "mars/kuhn-smol")
NUM_GAMES = 32  # four times the recipe's games in flight, so that the cache must evict games


def time_call(work):
    """Return the result of a call and the seconds that it took."""
    began = time.perf_counter()
    outcome = work()
    return outcome, time.perf_counter() - began


def peak_gib():
    """Return the peak memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(recipe, games):
    """Return one result row for this number of games."""
    # games to their end
    overrides = [
        f"rollout.games_per_step={games}",
        "evaluation.exact=false",
        "environments.0.illegal={rule: random}",
    ]
    config = resolve(apply_overrides(load_recipe(recipe), overrides))
    engine = LocalEngine(config)
    specs = self_play_specs(engine.environments[0][0], games, "learner")
    episodes, playing = time_call(lambda: engine.play(specs).episodes)
    after_play = peak_gib()
    sampler = engine.agent("learner").sampler
    segments = [
        segment for episode in episodes for turn in episode.turns for segment in turn.segments
    ]
    unique, sampled = (
        sum(len(s.ids) for s in segments),
        sum(len(s.ids) for s in segments if s.kind == "sampled"),
    )
    batch = engine.batch(episodes, progress=0.0)
    data = batch.pack
    with torch.no_grad():
        _, forward = time_call(
            lambda: [
                engine.learner._forward(engine.model, part)
                for part in engine.learner._slices(data, all_sequence_indices(data))
            ]
        )
    noise = np.random.default_rng(0).standard_normal(len(data.turn_of))
    credit = Credit(advantages=noise, level="token")
    _, update = time_call(lambda: engine.learn(batch, credit, step=0, progress=0.0))
    return {
        "recipe": recipe,
        "games": games,
        "turns": len(turn_table(episodes).reward),
        "conversation tokens": unique,
        "prefill ratio": sampler.tokens_computed / unique,
        "play tokens/s": unique / playing,
        "sampled tokens/s": sampled / playing,
        "forward tokens/s": unique / forward,
        "update tokens/s": unique / update,
        "peak GiB of play": after_play,
        "peak GiB": peak_gib(),
    }


def all_sequence_indices(data):
    """Return the indices of all sequences of a pack."""
    return torch.arange(len(data.distinct)).numpy()


if __name__ == "__main__":
    options = settings(argparse.ArgumentParser(description=__doc__))
    cases = [(RECIPES[-1], 1)] if options.quick else [(recipe, NUM_GAMES) for recipe in RECIPES]
    # one process for each recipe, so that its peak memory is measured separately
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        record("chat", pool.starmap(measure, cases, chunksize=1), options)

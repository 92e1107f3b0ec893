"""Tokens per second of the training loop, compared with the bare model on the same shapes.

The bare model has one row per game and seat. For every wave of turns it runs one cached pass over
the new tokens and one pass per further sampled token, then one forward and backward over all
sequences and AdamW. The loop does more than this work, but computes a context that games share
only once. If many games are equal, the loop can be faster than the bare model.
"""

import argparse
import time

import torch
from common import median_seconds
from published import record, settings

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.engine.local import LocalEngine
from sparring.learn.pack import pack
from sparring.models.attention import PrefixTree
from sparring.play.turn_table import ordered_turns
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

WARM_UP_STEPS, MEASURED_STEPS = 30, 10


def waves_of_turns(episodes):
    """Return (rows, new tokens, cached length, sampled tokens) of every wave of trained turns."""
    by_wave = {}
    lengths = {}
    for episode, turn in ordered_turns(episodes):
        prompted = sum(len(s.ids) for s in turn.segments if s.kind in ("prompt", "context"))
        replied = sum(len(s.ids) for s in turn.segments if s.kind == "sampled")
        key = (episode.episode_id, turn.seat)
        wave = by_wave.setdefault((turn.seat, turn.turn_index), [0, 0, 0, 0])
        wave[0] += 1
        wave[1], wave[2], wave[3] = (
            max(wave[1], prompted),
            max(wave[2], lengths.get(key, 0)),
            max(wave[3], replied),
        )
        lengths[key] = lengths.get(key, 0) + prompted + replied
    return list(by_wave.values())


def one_row_per_game(ids):
    """Return a prefix tree in which no prefix is shared."""
    rows, width = ids.shape
    numbers = torch.arange(rows * width)
    return PrefixTree(
        ids=ids.flatten(),
        position=numbers % width,
        node=numbers.view(rows, width),
        flat_index=numbers,
        query_index=numbers,
    )


def bare_seconds(engine, episodes):
    """Return the seconds of the bare model on the shapes of these episodes."""
    model, data, shapes = engine.model.clone(), pack(episodes), waves_of_turns(episodes)
    width = max(map(len, data.sequences))
    ids = torch.tensor(
        [
            (*data.sequences[index], *(0,) * (width - len(data.sequences[index])))
            for index in data.distinct
        ]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def work():
        with torch.inference_mode():
            for rows, prompted, cached, replied in shapes:
                cache = model.new_cache(rows, cached + prompted + replied)
                start = torch.full((rows,), cached)
                hidden = model.extend(
                    torch.zeros((rows, prompted), dtype=torch.int64), start, cache
                )[:, -1]
                for index in range(replied):
                    model.logits(hidden).softmax(-1)
                    if index + 1 < replied:
                        hidden = model.extend(
                            torch.zeros((rows, 1), dtype=torch.int64),
                            start + prompted + index,
                            cache,
                        )[:, 0]
        optimizer.zero_grad(set_to_none=True)
        for chunk in ids.split(max(1, 32768 // width)):
            model.logits(model.hidden(one_row_per_game(chunk))).log_softmax(-1).mean().backward()
        optimizer.step()

    return median_seconds(work, repeats=5)


def measure_recipe(recipe, *overrides, steps=(WARM_UP_STEPS, MEASURED_STEPS)):
    """Return tokens per second of a recipe's loop, after a warm-up, and of the bare model.

    Args:
        recipe: name of the recipe.
        overrides: overrides of its configuration.
        steps: number of warm-up steps, and number of timed steps.
    """
    before, measured = steps
    config = resolve(apply_overrides(load_recipe(recipe), ["learner.minibatches=1", *overrides]))
    engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
    for _ in range(before):
        state = play_round(config, engine, methods, state).state
    times, tokens, outcome = [], 0, None
    for _ in range(measured):
        began = time.perf_counter()
        outcome = play_round(config, engine, methods, state)
        state = outcome.state
        times.append(time.perf_counter() - began)
        tokens = sum(
            len(s.ids) for _, turn in ordered_turns(outcome.episodes) for s in turn.segments
        )
    ours, bare = sorted(times)[measured // 2], bare_seconds(engine, outcome.episodes)
    return {
        "recipe": recipe,
        "overrides": " ".join(overrides) or "-",
        "tokens/s": tokens / ours,
        "bare tokens/s": tokens / bare,
        "efficiency": bare / ours,
        "aim": 0.6,
        "distinct share": outcome.metrics["distinct_share"],
    }


if __name__ == "__main__":
    options = settings(argparse.ArgumentParser(description=__doc__))
    mirror = "matchmaker={name: mirror}"
    cases = [
        ("kuhn-tiny",),
        ("leduc-tiny",),
        ("tictactoe-tiny", mirror),
        ("tictactoe-tiny", mirror, "model.hidden_size=256"),
    ]
    small = (
        [measure_recipe("kuhn-tiny", "rollout.games_per_step=16", steps=(1, 1))]
        if options.quick
        else []
    )
    record("efficiency", small or [measure_recipe(*case) for case in cases], options)

"""The payoff table of 20 league members in Kuhn poker, played until each interval is narrow.

The members are snapshots of one short run, whose training is not timed. They play each other as
after a snapshot with `league.plays`: pairs with the fewest games play next, until the half-width
of the 95 % interval of every cell is at most 0.05 chips. A cell is a pair of members; each member
plays both sides equally often. Exact values are computed afterwards and do not affect the games.
"""

import argparse
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from published import record, settings

import sparring
from sparring.config import resolve
from sparring.config.parts import merge
from sparring.config.recipe import load_recipe
from sparring.engine.local import LocalEngine
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import enumerate_info_states
from sparring.run import checkpoint
from sparring.run.payoff_plays import with_exact, with_plays

MEMBERS, SNAPSHOT_STEPS, GAMES, HALF_WIDTH, MAX_SECONDS, CELLS_AT_ONCE = 20, 10, 256, 0.05, 300, 20
NUM_SKIPPED = 2  # number of first snapshots that are not members: some of their replies are illegal


def engine_of(options, folder):
    """Return the configuration of a run and its engine with the members of the last checkpoint."""
    steps = (options.members + NUM_SKIPPED) * options.every
    changes = {
        "steps": steps,
        "rollout": {"games_per_step": options.games},
        "league": {"every": options.every, "keep": options.members, "keeping": {"name": "newest"}},
        "evaluation": {"exact": False},
        "checkpoint": {"every": steps, "keep": 1},
        "logging": {"sinks": []},
    }
    config = resolve(merge(load_recipe("kuhn-tiny"), changes))
    sparring.train(config.model_dump(mode="json"), run=folder)
    engine = LocalEngine(config)
    engine.restore(checkpoint.load_latest(folder).path)
    return config, engine


def half_widths(book, members):
    """Return the half-width of the interval of each cell; infinite if it has no interval."""
    widths = []
    for pair in combinations(members, 2):
        ends = book.results(*pair).return_interval()
        widths.append(np.inf if ends is None else (ends[1] - ends[0]) / 2)
    return np.array(widths)


def play_until_precise(config, engine, half, at_once):
    """Play until all intervals are narrow; return the payoff book, the seconds, and the number of
    games.
    """
    pairs = len(engine.members) * (len(engine.members) - 1) // 2
    league = config.league.model_copy(update={"plays": at_once * pairs})
    config = config.model_copy(update={"league": league})
    book, began, rounds = Payoffs(), time.perf_counter(), 0
    while half_widths(book, engine.members).max() > half:
        rounds += 1
        book = with_plays(config, engine, book, rounds)
    return book, time.perf_counter() - began, rounds * at_once * pairs


def compare_with_exact(book, exact, members):
    """Return the largest error of a cell, and the share of intervals that cover the exact value."""
    errors, is_covered = [], []
    for pair in combinations(members, 2):
        value, results = exact.results(*pair).mean_return, book.results(*pair)
        low, high = results.return_interval()
        errors.append(abs(results.mean_return - value))
        is_covered.append(low <= value <= high)
    return max(errors), float(np.mean(is_covered))


def largest_illegal_mass(engine, states):
    """Return the largest mean probability of illegal replies over the members."""
    agents = map(engine.agent, engine.members)
    return max(float(query_policy(agent, states)[1].mean()) for agent in agents)


def measure_row(options):
    """Return the result row."""
    with tempfile.TemporaryDirectory() as folder:
        config, engine = engine_of(options, Path(folder) / "run")
    members, game = engine.members, engine.environments[0][0]
    book, seconds, plays = play_until_precise(config, engine, options.half, options.at_once)
    began = time.perf_counter()
    exact = with_exact(config, engine, Payoffs())
    exact_seconds = time.perf_counter() - began
    error, covered = compare_with_exact(book, exact, members)
    return {
        "game": game.name,
        "starts": "all",
        "members": len(members),
        "cells": len(members) * (len(members) - 1) // 2,
        "plays": plays,
        "seconds": seconds,
        "plays/s": plays / seconds,
        "largest half-width": float(half_widths(book, members).max()),
        "aim": MAX_SECONDS,
        "largest error": error,
        "share held": covered,
        "largest illegal mass": largest_illegal_mass(engine, enumerate_info_states(game)),
        "exact seconds": exact_seconds,
        "threads": str(torch.get_num_threads()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument(
        "--every", type=int, default=SNAPSHOT_STEPS, help="steps of the run between two"
    )
    parser.add_argument("--games", type=int, default=GAMES, help="plays of a step of the run")
    parser.add_argument("--half", type=float, default=HALF_WIDTH, help="largest half-width, chips")
    parser.add_argument(
        "--at-once",
        type=int,
        default=CELLS_AT_ONCE,
        help="plays per cell between two looks at widths",
    )
    options = settings(parser, quick={"members": 3, "every": 1, "games": 16, "half": 1.0})
    record("payoffs", [measure_row(options)], options)

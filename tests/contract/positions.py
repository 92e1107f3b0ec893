"""Positions that tests of what judges them share."""

import math

from sparring.core.rng import Stream


def positions(game, *, plays=6, most=16):
    """Return at most so many states of random plays of a game, evenly spread."""
    root, out = Stream.from_seed(4), []
    for episode in range(plays):
        state, draws = game.reset(root.child("deal").child(episode)), root.child("draws").child(episode)
        while not state.done:
            out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    return out[:: max(1, math.ceil(len(out) / most))]

"""Random positions of a game, which tests of oracles and solvers judge."""

import math

from sparring.core.rng import Stream


def positions(game, *, plays=6, most=16):
    """Return at most about ``most`` states of random episodes, evenly spread."""
    root, states = Stream.from_seed(4), []
    for episode in range(plays):
        state, stream = game.reset(root.child("deal").child(episode)), root.child("draws").child(episode)
        while not state.done:
            states.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[stream.integer(state.plies, len(legal))])
    return states[:: max(1, math.ceil(len(states) / most))]

"""Positions and brute force that tests of oracles share."""

from sparring.core.rng import Stream


def played(game, number=20, seed=0, least=0):
    """Return the states met in random plays of a game, from ply ``least`` on."""
    root, out = Stream.from_seed(seed), []
    for episode in range(number):
        draws, state = root.child("draws").child(episode), game.reset(root.child("deal").child(episode))
        while not state.done:
            if state.plies >= least:
                out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    return out


def after(game, *moves):
    state = game.reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


def solved(spiel):
    """Return an OpenSpiel state's value for seat 0 by a recursion that remembers nothing."""
    if spiel.is_terminal():
        return spiel.returns()[0]
    values = [solved(spiel.child(action)) for action in spiel.legal_actions()]
    return max(values) if spiel.current_player() == 0 else min(values)


def solved_actions(state):
    """Return the value of each legal action to the seat that acts, by brute force."""
    sign = 1 if state.seat == 0 else -1
    return tuple(sign * solved(state.spiel.child(index)) for index in state.spiel.legal_actions())

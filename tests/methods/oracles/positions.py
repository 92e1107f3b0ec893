"""Random positions and brute-force values shared by the tests of oracles."""

from sparring.core.rng import Stream


def random_states(game, number=20, seed=0, min_plies=0):
    """Return the states of random games, from ply ``min_plies`` on."""
    root, states = Stream.from_seed(seed), []
    for episode in range(number):
        stream, state = root.child("draws").child(episode), game.reset(root.child("deal").child(episode))
        while not state.done:
            if state.plies >= min_plies:
                states.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[stream.integer(state.plies, len(legal))])
    return states


def state_after(game, *moves):
    state = game.reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


def brute_force_value(spiel):
    """Return an OpenSpiel state's value for seat 0 by plain recursion without a cache."""
    if spiel.is_terminal():
        return spiel.returns()[0]
    values = [brute_force_value(spiel.child(action)) for action in spiel.legal_actions()]
    return max(values) if spiel.current_player() == 0 else min(values)


def brute_force_action_values(state):
    """Return the value of each legal action to the seat that acts, by brute force."""
    sign = 1 if state.seat == 0 else -1
    return tuple(sign * brute_force_value(state.spiel.child(index)) for index in state.spiel.legal_actions())

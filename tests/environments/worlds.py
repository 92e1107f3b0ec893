"""Brute force for games of one seat in which the world is hidden: all worlds, all plays, nothing remembered."""

from math import log

from sparring.core.rng import Stream


def settled(spiel, weight):
    """Return (state, probability) of every way through the chance nodes ahead."""
    if not spiel.is_chance_node():
        return [(spiel, weight)]
    return [end for outcome, chance in spiel.chance_outcomes() for end in settled(spiel.child(outcome), weight * chance)]


def agreeing(state):
    """Return (state, probability) of every history that the seat cannot tell from this one."""
    moves = [event.action for event in state.trail if event.player >= 0]
    ends = settled(state.game.spiel.new_initial_state(), 1.0)
    for move in moves:
        ends = [end for spiel, weight in ends if not spiel.is_terminal() for end in settled(spiel.child(move), weight)]
    known = state.spiel.information_state_string(0)
    return [(spiel, weight) for spiel, weight in ends if spiel.information_state_string(0) == known]


def action_values(ends):
    """Return, for histories that cannot be told apart, probability times expected return of best play after each legal action."""
    values = []
    for move in ends[0][0].legal_actions():
        groups, total = {}, 0.0
        for spiel, weight in ends:
            for after, share in settled(spiel.child(move), weight):
                if after.is_terminal():
                    total += share * after.returns()[0]
                else:
                    groups.setdefault(after.information_state_string(0), []).append((after, share))
        values.append(total + sum(max(action_values(group)) for group in groups.values()))
    return values


def judged(state):
    """Return the value of each legal action, and the entropy of the hidden thing."""
    ends = agreeing(state)
    total = sum(weight for _, weight in ends)
    hidden = {}
    for spiel, weight in ends:
        hidden[spiel.table.hidden] = hidden.get(spiel.table.hidden, 0.0) + weight / total
    return [value / total for value in action_values(ends)], -sum(share * log(share) for share in hidden.values() if share)


def played(game, number, seed=0):
    """Return the states met in plays that mostly go on, so that plays are long; going on is the first legal actions."""
    out, root = [], Stream.from_seed(seed)
    for episode in range(number):
        state, draws = game.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[int(draws.uniform(state.plies) ** 2 * len(legal))])
    return out

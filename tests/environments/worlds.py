"""What tests of environments share: makers, starts, and brute force over all worlds and plays, with nothing remembered."""

from math import log

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.testing import check_environment


def maker(name, **fixed):
    return lambda **options: make_game(name, options={**fixed, **options})


def refusing(name, *options, by_option=False):
    """Return the test that an environment refuses each of some options by its own name, or by that of the option."""

    @pytest.mark.parametrize("options", options, ids=str)
    def check(options):
        with pytest.raises(ConfigError, match=next(iter(options)) if by_option else name):
            make_game(name, options=options)

    return check


def check_says(text, *parts):
    for part in parts:
        assert part in text, part


def keeping(environment, options, /, **fixed):
    """Return the test that an environment keeps what every environment must, with each of some options."""

    @pytest.mark.parametrize("options", options, ids=str)
    def check(options):
        check_environment(environment, **fixed, **options)

    return check


def solver_of(name):
    """Return what judges a state by the solver of an environment, with options."""
    return lambda state, **options: registry.with_options(registry.load_part("environments", name, "solver"), options)(
        state
    )


def constraint_oracle(**options):
    return registry.bind("oracles", "constraint", options)()


def start(rules, seed=0):
    return rules.reset(Stream.from_seed(seed))


def steps(play, *replies):
    for moment in replies:
        play.step(moment)


def actions(state, *words):
    for word in words:
        state.apply(word)


def after(rules, *words, seed=0):
    state = start(rules, seed)
    actions(state, *words)
    return state


def dealt(rules, *indices):
    """Return the state after these cards and actions, as ids, from the start."""
    spiel = rules.spiel.new_initial_state()
    for index in indices:
        spiel.apply_action(index)
    return rules.state_of(spiel)


def right_play(rules, number):
    """Return the states of plays that write what the solution of a puzzle holds, in random order."""
    out, root = [], Stream.from_seed(5)
    for episode in range(number):
        state, draws = rules.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            out.append(state.clone())
            right = right_actions(state)
            state.apply_index(right[draws.integer(state.plies, len(right))])
    return out


def right_actions(state, right=True):
    """Return the legal action ids that write what the solution of a puzzle holds, or those that do not."""
    table = state.spiel.table
    size = table.size if hasattr(table, "size") else table.houses
    return [
        index for index in state.spiel.legal_actions() if (table.solution[index // size] == index % size + 1) == right
    ]


def best_return(spiel):
    return (
        spiel.returns()[0]
        if spiel.is_terminal()
        else max(best_return(spiel.child(action)) for action in spiel.legal_actions())
    )


def check_values_of_puzzles(states):
    """Check that the oracle of constraints judges by the returns of best play, and abstains where all are 0 after a mistake."""
    judged = 0
    for state, judgement in zip(states, constraint_oracle().judge(states), strict=True):
        truth = [best_return(state.spiel.child(action)) for action in state.spiel.legal_actions()]
        if judgement is None:
            assert set(truth) == {0.0} and state.spiel.table.mistakes
        else:
            judged += 1
            assert judgement.values == pytest.approx(truth)
    assert judged >= 12


def check_lost_boards(rules, states):
    """Check that boards with a mistake are abstained on and counted, or judged by the solution if asked."""
    states = [state for state in states if state.spiel.table.mistakes]
    judge = constraint_oracle()
    assert judge.judge(states) == [None] * len(states)
    assert judge.metrics["abstained"] == judge.metrics["judged"] == len(states) > 10
    for state, judgement in zip(states, constraint_oracle(lost="solution").judge(states), strict=True):
        right = {rules.words[index] for index in right_actions(state)}
        assert judgement.bound == 1.0 and set(judgement.values) <= {0.0, 1.0}
        assert judgement.best == (right or set(judgement.actions))


def check_beliefs(rules, solver, plays, more_than, **options):
    """Check values and entropy of a solver against all worlds and plays, at each belief once."""
    seen = set()
    for state in played(rules, plays):
        if state.observe(0).key in seen or (not state.plies and len(seen) > 8):
            continue
        seen.add(state.observe(0).key)
        values, hidden = judged(state)
        judgement = solver(state, **options)
        assert judgement.values == pytest.approx(values, abs=1e-12)
        assert judgement.entropy == pytest.approx(hidden, abs=1e-12)
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
    assert len(seen) > more_than


def settled(spiel, weight):
    """Return (state, probability) of every way through the chance nodes ahead."""
    if not spiel.is_chance_node():
        return [(spiel, weight)]
    return [
        end for outcome, chance in spiel.chance_outcomes() for end in settled(spiel.child(outcome), weight * chance)
    ]


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
    return [value / total for value in action_values(ends)], -sum(
        share * log(share) for share in hidden.values() if share
    )


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

"""Helpers for environment tests: factories, initial states, and brute force over all hidden states and histories."""

from math import log

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.testing import check_environment


def make_game_factory(name, **fixed):
    """Return a function that makes an environment with these options and its arguments."""
    return lambda **options: make_game(name, options={**fixed, **options})


def make_refusal_test(name, *options, by_option=False):
    """Return a test that each of some options is refused; the error names the environment or the option."""

    @pytest.mark.parametrize("options", options, ids=str)
    def check_refused(options):
        with pytest.raises(ConfigError, match=next(iter(options)) if by_option else name):
            make_game(name, options=options)

    return check_refused


def check_contains(text, *parts):
    for part in parts:
        assert part in text, part


def make_contract_test(environment, options, /, **fixed):
    """Return a test that an environment passes `check_environment` with each of some options."""

    @pytest.mark.parametrize("options", options, ids=str)
    def check_contract(options):
        check_environment(environment, **fixed, **options)

    return check_contract


def load_solver(name):
    """Return a function that judges a state by the solver of an environment."""
    return lambda state, **options: registry.with_options(registry.load_part("environments", name, "solver"), options)(
        state
    )


def constraint_oracle(**options):
    return registry.bind("oracles", "constraint", options)()


def start(rules, seed=0):
    """Return the initial state of an episode with this seed."""
    return rules.reset(Stream.from_seed(seed))


def play_replies(play, *replies):
    for reply in replies:
        play.step(reply)


def apply_actions(state, *words):
    for word in words:
        state.apply(word)


def state_after(rules, *words, seed=0):
    state = start(rules, seed)
    apply_actions(state, *words)
    return state


def state_after_ids(rules, *indices):
    """Return the state after chance outcomes and actions, given as ids from the root."""
    spiel = rules.spiel.new_initial_state()
    for index in indices:
        spiel.apply_action(index)
    return rules.state_of(spiel)


def sample_correct_states(rules, num_episodes):
    """Return the states of episodes that fill in the solution of a puzzle in random order."""
    states, root = [], Stream.from_seed(5)
    for episode in range(num_episodes):
        state, stream = rules.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            states.append(state.clone())
            correct = correct_actions(state)
            state.apply_index(correct[stream.integer(state.plies, len(correct))])
    return states


def correct_actions(state, is_correct=True):
    """Return the legal action ids that agree with the solution of a puzzle, or those that contradict it."""
    table = state.spiel.table
    num_values = table.size if hasattr(table, "size") else table.houses
    return [
        index
        for index in state.spiel.legal_actions()
        if (table.solution[index // num_values] == index % num_values + 1) == is_correct
    ]


def best_return(spiel):
    """Return the best return that seat 0 can still get, by exhaustive search."""
    return (
        spiel.returns()[0]
        if spiel.is_terminal()
        else max(best_return(spiel.child(action)) for action in spiel.legal_actions())
    )


def check_puzzle_values(states):
    """Check the values of the constraint oracle; it abstains only after a mistake, where every return is 0."""
    num_judged = 0
    for state, judgement in zip(states, constraint_oracle().judge(states), strict=True):
        best_returns = [best_return(state.spiel.child(action)) for action in state.spiel.legal_actions()]
        if judgement is None:
            assert set(best_returns) == {0.0} and state.spiel.table.mistakes
        else:
            num_judged += 1
            assert judgement.values == pytest.approx(best_returns)
    assert num_judged >= 12


def check_boards_with_mistakes(rules, states):
    """Check that the oracle abstains on boards with a mistake, or judges by the solution with `lost`."""
    states = [state for state in states if state.spiel.table.mistakes]
    oracle = constraint_oracle()
    assert oracle.judge(states) == [None] * len(states)
    assert oracle.metrics["abstained"] == oracle.metrics["judged"] == len(states) > 10
    for state, judgement in zip(states, constraint_oracle(lost="solution").judge(states), strict=True):
        right_actions = {rules.words[index] for index in correct_actions(state)}
        assert judgement.bound == 1.0 and set(judgement.values) <= {0.0, 1.0}
        assert judgement.best == (right_actions or set(judgement.actions))


def check_beliefs(rules, solver, num_episodes, min_beliefs, **options):
    """Check values and entropy of a solver by brute force for each belief."""
    seen_keys = set()
    for state in sample_states(rules, num_episodes):
        if state.observe(0).key in seen_keys or (not state.plies and len(seen_keys) > 8):
            continue
        seen_keys.add(state.observe(0).key)
        values, entropy = brute_force_judgement(state)
        judgement = solver(state, **options)
        assert judgement.values == pytest.approx(values, abs=1e-12)
        assert judgement.entropy == pytest.approx(entropy, abs=1e-12)
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
    assert len(seen_keys) > min_beliefs


def expand_chance(spiel, weight):
    """Return (state, probability) for every outcome of the next chance nodes."""
    if not spiel.is_chance_node():
        return [(spiel, weight)]
    return [
        history
        for outcome, chance in spiel.chance_outcomes()
        for history in expand_chance(spiel.child(outcome), weight * chance)
    ]


def indistinguishable_histories(state):
    """Return (state, probability) of every history in the same information state."""
    moves = [event.action for event in state.trail if event.player >= 0]
    histories = expand_chance(state.game.spiel.new_initial_state(), 1.0)
    for move in moves:
        histories = [
            history
            for spiel, weight in histories
            if not spiel.is_terminal()
            for history in expand_chance(spiel.child(move), weight)
        ]
    info_state = state.spiel.information_state_string(0)
    return [(spiel, weight) for spiel, weight in histories if spiel.information_state_string(0) == info_state]


def action_values(histories):
    """Return, per legal action, the probability of these histories times the expected return of best play."""
    values = []
    for move in histories[0][0].legal_actions():
        groups, value_at_end = {}, 0.0
        for spiel, weight in histories:
            for next_spiel, share in expand_chance(spiel.child(move), weight):
                if next_spiel.is_terminal():
                    value_at_end += share * next_spiel.returns()[0]
                else:
                    groups.setdefault(next_spiel.information_state_string(0), []).append((next_spiel, share))
        values.append(value_at_end + sum(max(action_values(group)) for group in groups.values()))
    return values


def brute_force_judgement(state):
    """Return the value of each legal action, and the entropy of the hidden state."""
    histories = indistinguishable_histories(state)
    total_weight = sum(weight for _, weight in histories)
    hidden_probabilities = {}
    for spiel, weight in histories:
        hidden_probabilities[spiel.table.secret] = (
            hidden_probabilities.get(spiel.table.secret, 0.0) + weight / total_weight
        )
    return [value / total_weight for value in action_values(histories)], -sum(
        share * log(share) for share in hidden_probabilities.values() if share
    )


def sample_states(game, num_episodes, seed=0):
    """Return the states of random episodes; the first legal actions, which do not end an episode, are likelier."""
    states, root = [], Stream.from_seed(seed)
    for episode in range(num_episodes):
        state, stream = game.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            states.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[int(stream.uniform(state.plies) ** 2 * len(legal))])
    return states

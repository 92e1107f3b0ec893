"""Exact Q and V against a recursion over states, and against known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import history_reach, info_state_reach
from sparring.measure.info_states import enumerate_info_states, exact_values

KUHN = make_game("kuhn_poker")
STATES = enumerate_info_states(KUHN)


def random_policy(states, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    return [generator.dirichlet(np.ones(len(query.legal_actions))) for query in states.queries]


def uniform(states):
    return [np.full(len(query.legal_actions), 1 / len(query.legal_actions)) for query in states.queries]


def naive(game, states, policy):
    """Q and V by a recursion over OpenSpiel's states that sums, per information state, over its histories."""
    number = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
    sums = [np.zeros((len(row), 2)) for row in policy]

    def walk(state, reach):  # reach: probability without each seat's own moves
        if state.is_terminal():
            return np.array(state.returns())
        if state.is_chance_node():
            return sum(p * walk(state.child(a), reach * p) for a, p in state.chance_outcomes())
        seat = state.current_player()
        index = number[seat, game.state_of(state).observe(seat).key]
        total = np.zeros(game.num_seats)
        for choice, action in enumerate(states.legal_ids[index]):
            probability = policy[index][choice]
            factor = np.full(game.num_seats, probability)
            factor[seat] = 1.0
            worth = walk(state.child(action), reach * factor)
            sums[index][choice] += reach[seat] * np.array([worth[seat], 1.0])
            total = total + probability * worth
        return total

    returns = walk(game.spiel.new_initial_state(), np.ones(game.num_seats))
    return [own[:, 0] / own[:, 1] for own in sums], returns


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi"])
def test_the_recursion_says_the_same(name, seed):
    game = make_game(name)
    states = enumerate_info_states(game)
    policy = random_policy(states, seed)
    values = exact_values(states, policy)
    action, returns = naive(game, states, policy)
    for own, other in zip(values.action, action, strict=True):
        assert own == pytest.approx(other)
    assert values.returns == pytest.approx(returns)
    assert values.state == pytest.approx([p @ q for p, q in zip(policy, action, strict=True)])
    assert values.reach == pytest.approx(info_state_reach(states, history_reach(states, policy)))


def test_kuhn_by_hand():
    values = exact_values(STATES, uniform(STATES))
    number = {(query.seat, query.key): index for index, query in enumerate(STATES.queries)}
    facing_bet = number[1, "2b"]  # the king faces a bet: folding loses the ante, calling wins 2
    assert values.action[facing_bet].tolist() == pytest.approx([-1.0, 2.0])
    assert values.state[facing_bet] == pytest.approx(0.5)
    assert values.returns == pytest.approx([0.125, -0.125])  # known value of uniform play


def test_where_the_policy_never_goes_values_are_defined_by_the_others():
    policy = uniform(STATES)
    for index, query in enumerate(STATES.queries):
        if query.seat == 0 and len(query.actions) == 0:
            policy[index] = np.array([0.0, 1.0])  # the first player always bets, so it is never asked a second time
    values = exact_values(STATES, policy)
    second = [index for index, query in enumerate(STATES.queries) if query.seat == 0 and query.actions]
    assert values.reach[second] == pytest.approx(np.zeros(3))
    assert values.action[second[0]].tolist() == pytest.approx([-1.0, -2.0])  # the jack who is bet into


def test_the_mean_of_the_advantage_under_the_policy_is_zero():
    policy = random_policy(STATES, 3)
    values = exact_values(STATES, policy)
    for row, own, value in zip(policy, values.action, values.state, strict=True):
        assert row @ (own - value) == pytest.approx(0.0, abs=1e-12)

"""Best responses on a game tree: OpenSpiel's values, deeper decisions settled first. (Values: tests/measure/test_info_states.py.)"""

import numpy as np
import pytest

from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import best_response_values
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import GameTree, best_response, folded, last_move_returns, policy_values


@pytest.mark.parametrize(
    ("name", "options"), [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("tiny_hanabi", {}), ("leduc_poker", {})]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_best_response_earns_what_openspiel_says(name, options, seed):
    game = make_game(name, options=options)
    states = enumerate_info_states(game)
    generator = np.random.Generator(np.random.Philox(seed))
    policy = [generator.dirichlet(np.ones(len(query.legal_actions))) for query in states.queries]
    seats = np.array([query.seat for query in states.queries])
    best = best_response_values(game, states, policy)
    for seat in range(game.num_seats):
        answer = best_response(states.tree, seats, policy, seat)
        assert policy_values(states.tree, seats, answer).returns[seat] == pytest.approx(best[seat], abs=1e-9)
        assert all((np.asarray(new) == old).all() for new, old, who in zip(answer, policy, seats, strict=True) if who != seat)


def test_what_a_last_move_earns_in_kuhn_poker_by_hand():
    """To check with the jack is the last move where the other checks too, and then loses 1; a bet is always the last."""
    states = enumerate_info_states(make_game("kuhn_poker"))
    uniform = [np.full(2, 0.5)] * len(states)
    values, earned = policy_values(states.tree, states.seats, uniform), last_move_returns(states.tree, states.seats, uniform)
    for index, query in enumerate(states.queries):
        check, bet = earned[2 * index : 2 * index + 2]
        if query.seat == 0 and not query.actions:
            assert check == pytest.approx((-1.0, 0.0, 1.0)[int(query.key[0])])  # a show-down for 1
            assert bet == pytest.approx(values.action[index][1])
        else:
            assert (check, bet) == pytest.approx(tuple(values.action[index])) or query.seat == 1


def test_a_seat_that_never_acts_has_nothing_to_change():
    tree = GameTree(
        parent=np.array([-1, 0, 0]),
        info_state=np.array([-1, 0, 0]),
        choice=np.array([-1, 0, 1]),
        chance=np.ones(3),
        terminal=np.array([1, 2]),
        returns=np.array([[1.0, 5.0], [2.0, 3.0]]),
    )
    policy = [np.array([0.5, 0.5])]
    assert best_response(tree, np.array([0]), policy, 1)[0] is policy[0]
    assert best_response(tree, np.array([0]), policy, 0)[0].tolist() == [0.0, 1.0]
    found = policy_values(tree, np.array([0]), policy)
    assert (found.others.tolist(), found.reach.tolist(), found.returns.tolist()) == ([1.0], [1.0], [1.5, 4.0])


@pytest.mark.parametrize(("name", "options"), [("kuhn_poker", {"players": 3}), ("leduc_poker", {})])
def test_some_seats_are_paid_the_same_in_the_tree_of_their_own_decisions(name, options):
    states = enumerate_info_states(make_game(name, options=options))
    draws = np.random.Generator(np.random.Philox(5))
    own, one, other = ([draws.dirichlet(np.ones(width)) for width in states.widths] for _ in range(3))
    mine = states.seats != 1

    def whole(rows, others):
        policy = [a if kept else b for a, b, kept in zip(rows, others, mine, strict=True)]
        return policy_values(states.tree, states.seats, policy).returns

    tree = folded(states.tree, mine, [(0.25, one), (0.75, other)])
    mixed = 0.25 * whole(own, one) + 0.75 * whole(own, other)
    assert policy_values(tree, states.seats, own).returns == pytest.approx(mixed)
    assert len(tree.parent) < len(states.tree.parent) and set(tree.info_state[1:]) == set(np.flatnonzero(mine))
    alone = folded(states.tree, mine, [(1.0, one)])
    answer = best_response(alone, states.seats, own, 0)
    policy = [a if kept else b for a, b, kept in zip(own, one, mine, strict=True)]
    best = best_response(states.tree, states.seats, policy, 0)
    assert policy_values(alone, states.seats, answer).returns[0] == pytest.approx(whole(best, one)[0])

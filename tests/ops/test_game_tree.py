import numpy as np
import pytest

from sparring.environments.catalogue import make_game
from sparring.environments.history_tree import tree_of
from sparring.environments.tree_arrays import walk
from sparring.measure.exploitability import best_response_values
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import (
    GameTree,
    average_strategies,
    best_response,
    fold_decisions,
    last_move_returns,
    policy_values,
)


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
        assert all(
            (np.asarray(new) == old).all() for new, old, who in zip(answer, policy, seats, strict=True) if who != seat
        )


def test_what_a_last_move_earns_in_kuhn_poker_by_hand():
    """To check with the jack is the last move where the other checks too, and then loses 1; a bet is always the last."""
    states = enumerate_info_states(make_game("kuhn_poker"))
    uniform = [np.full(2, 0.5)] * len(states)
    values, earned = (
        policy_values(states.tree, states.seats, uniform),
        last_move_returns(states.tree, states.seats, uniform),
    )
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
    values = policy_values(tree, np.array([0]), policy)
    assert (values.others.tolist(), values.reach.tolist(), values.returns.tolist()) == ([1.0], [1.0], [1.5, 4.0])


@pytest.mark.parametrize(("name", "options"), [("kuhn_poker", {"players": 3}), ("leduc_poker", {})])
def test_some_seats_are_paid_the_same_in_the_tree_of_their_own_decisions(name, options):
    states = enumerate_info_states(make_game(name, options=options))
    draws = np.random.Generator(np.random.Philox(5))
    ours, first, second = ([draws.dirichlet(np.ones(width)) for width in states.widths] for _ in range(3))
    mine = states.seats != 1

    def whole(rows, others):
        policy = [a if is_mine else b for a, b, is_mine in zip(rows, others, mine, strict=True)]
        return policy_values(states.tree, states.seats, policy).returns

    tree = fold_decisions(states.tree, mine, [(0.25, first), (0.75, second)])
    mixed = 0.25 * whole(ours, first) + 0.75 * whole(ours, second)
    assert policy_values(tree, states.seats, ours).returns == pytest.approx(mixed)
    assert len(tree.parent) < len(states.tree.parent) and set(tree.info_state[1:]) == set(np.flatnonzero(mine))
    alone = fold_decisions(states.tree, mine, [(1.0, first)])
    answer = best_response(alone, states.seats, ours, 0)
    policy = [a if is_mine else b for a, b, is_mine in zip(ours, first, mine, strict=True)]
    best = best_response(states.tree, states.seats, policy, 0)
    assert policy_values(alone, states.seats, answer).returns[0] == pytest.approx(whole(best, first)[0])


def solved(name, steps):
    walked = walk(tree_of(make_game(name)))
    widths = np.array([len(legal) for legal in walked.legal])
    policy = average_strategies(walked.tree, walked.seats, widths, steps)
    return walked, policy


def exploitability(walked, policy):
    value = policy_values(walked.tree, walked.seats, policy).returns
    gains = [
        policy_values(walked.tree, walked.seats, best_response(walked.tree, walked.seats, policy, seat)).returns[seat]
        - value[seat]
        for seat in (0, 1)
    ]
    return sum(gains) / 2


@pytest.mark.parametrize(
    ("name", "value"), [("kuhn_poker", -1 / 18), ("rock_paper_scissors", 0.0), ("rps_spock_lizard", 0.0)]
)
def test_it_comes_to_the_known_value(name, value):
    walked, policy = solved(name, 400)
    assert policy_values(walked.tree, walked.seats, policy).returns[0] == pytest.approx(value, abs=2e-3)
    assert exploitability(walked, policy) < 2e-3


def test_by_hand_one_step_of_two_actions():
    """Rock, paper, scissors: uniform has no regret anywhere, so every step stays there, bit for bit."""
    _, policy = solved("rock_paper_scissors", 7)
    assert all(row.tolist() == [1 / 3] * 3 for row in policy)


def naive(tree, seats, widths, steps):
    children = {}
    for node in range(1, len(tree.parent)):
        children.setdefault(int(tree.parent[node]), []).append(node)
    payoffs = {int(end): returns for end, returns in zip(tree.terminal, tree.returns, strict=True)}
    regrets, sums = ([np.zeros(width) for width in widths] for _ in range(2))

    def strategy(weights):
        return weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))

    def value(node, seat, reach, others, now, added, weight):
        if node in payoffs:
            return payoffs[node][seat]
        below, total, mine = children[node], 0.0, False
        gains = {}
        for child in below:
            state, choice = int(tree.info_state[child]), int(tree.choice[child])
            share = tree.chance[child] if state < 0 else now[state][choice]
            mine = state >= 0 and seats[state] == seat
            worth = value(
                child, seat, reach * share if mine else reach, others if mine else others * share, now, added, weight
            )
            total += share * worth
            gains[child] = worth
        if mine:
            for child in below:
                state, choice = int(tree.info_state[child]), int(tree.choice[child])
                added[state][choice] += others * (gains[child] - total)
                weight[state] = reach
        return total

    for step in range(1, steps + 1):
        for seat in sorted(set(seats.tolist())):
            now, added, weight = [strategy(row) for row in regrets], [np.zeros(width) for width in widths], {}
            value(0, seat, 1.0, 1.0, now, added, weight)
            for state in np.flatnonzero(seats == seat):
                regrets[state] = np.maximum(regrets[state] + added[state], 0)
                sums[state] = sums[state] + step * weight[state] * now[state]
    return [strategy(row) for row in sums]


@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi", "signalling"])
def test_every_number_is_that_of_the_recursion(name):
    walked, policy = solved(name, 9)
    widths = [len(legal) for legal in walked.legal]
    for row, expected in zip(policy, naive(walked.tree, walked.seats, widths, 9), strict=True):
        assert row == pytest.approx(expected, abs=1e-12)

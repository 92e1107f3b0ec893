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
def test_a_best_response_has_the_value_that_openspiel_computes(name, options, seed):
    game = make_game(name, options=options)
    states = enumerate_info_states(game)
    generator = np.random.Generator(np.random.Philox(seed))
    policy = [generator.dirichlet(np.ones(len(query.legal_actions))) for query in states.queries]
    seats = np.array([query.seat for query in states.queries])
    values = best_response_values(game, states, policy)
    for seat in range(game.num_seats):
        answer = best_response(states.tree, seats, policy, seat)
        assert policy_values(states.tree, seats, answer).returns[seat] == pytest.approx(values[seat], abs=1e-9)
        assert all(
            (np.asarray(answer_row) == policy_row).all()
            for answer_row, policy_row, row_seat in zip(answer, policy, seats, strict=True)
            if row_seat != seat
        )


def test_values_of_last_moves_in_kuhn_poker_by_hand():
    """If both check, the check is the last move of the first seat and the jack loses 1; a bet is always a last move."""
    states = enumerate_info_states(make_game("kuhn_poker"))
    uniform_policy = [np.full(2, 0.5)] * len(states)
    values, last_returns = (
        policy_values(states.tree, states.seats, uniform_policy),
        last_move_returns(states.tree, states.seats, uniform_policy),
    )
    for index, query in enumerate(states.queries):
        check, bet = last_returns[2 * index : 2 * index + 2]
        if query.seat == 0 and not query.actions:
            assert check == pytest.approx((-1.0, 0.0, 1.0)[int(query.key[0])])  # both check: the higher card wins 1
            assert bet == pytest.approx(values.action[index][1])
        else:
            assert (check, bet) == pytest.approx(tuple(values.action[index])) or query.seat == 1


def test_a_seat_without_decisions_has_no_effect():
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
    assert (values.other_reach.tolist(), values.reach.tolist(), values.returns.tolist()) == ([1.0], [1.0], [1.5, 4.0])


@pytest.mark.parametrize(("name", "options"), [("kuhn_poker", {"players": 3}), ("leduc_poker", {})])
def test_folding_other_seats_into_the_tree_keeps_payoffs(name, options):
    states = enumerate_info_states(make_game(name, options=options))
    draws = np.random.Generator(np.random.Philox(5))
    own_rows, rows_of_seat_1, rows_of_seat_2 = (
        [draws.dirichlet(np.ones(width)) for width in states.widths] for _ in range(3)
    )
    is_own = states.seats != 1

    def full_tree_payoffs(rows, other_rows):
        policy = [a if is_own_row else b for a, b, is_own_row in zip(rows, other_rows, is_own, strict=True)]
        return policy_values(states.tree, states.seats, policy).returns

    tree = fold_decisions(states.tree, is_own, [(0.25, rows_of_seat_1), (0.75, rows_of_seat_2)])
    expected = 0.25 * full_tree_payoffs(own_rows, rows_of_seat_1) + 0.75 * full_tree_payoffs(own_rows, rows_of_seat_2)
    assert policy_values(tree, states.seats, own_rows).returns == pytest.approx(expected)
    assert len(tree.parent) < len(states.tree.parent) and set(tree.info_state[1:]) == set(np.flatnonzero(is_own))
    folded_tree = fold_decisions(states.tree, is_own, [(1.0, rows_of_seat_1)])
    answer = best_response(folded_tree, states.seats, own_rows, 0)
    policy = [a if is_own_row else b for a, b, is_own_row in zip(own_rows, rows_of_seat_1, is_own, strict=True)]
    response = best_response(states.tree, states.seats, policy, 0)
    assert policy_values(folded_tree, states.seats, answer).returns[0] == pytest.approx(
        full_tree_payoffs(response, rows_of_seat_1)[0]
    )


def solve(name, steps):
    tree_arrays = walk(tree_of(make_game(name)))
    widths = np.array([len(legal) for legal in tree_arrays.legal])
    policy = average_strategies(tree_arrays.tree, tree_arrays.seats, widths, steps)
    return tree_arrays, policy


def exploitability(tree_arrays, policy):
    value = policy_values(tree_arrays.tree, tree_arrays.seats, policy).returns
    gains = [
        policy_values(
            tree_arrays.tree, tree_arrays.seats, best_response(tree_arrays.tree, tree_arrays.seats, policy, seat)
        ).returns[seat]
        - value[seat]
        for seat in (0, 1)
    ]
    return sum(gains) / 2


@pytest.mark.parametrize(
    ("name", "value"), [("kuhn_poker", -1 / 18), ("rock_paper_scissors", 0.0), ("rps_spock_lizard", 0.0)]
)
def test_cfr_converges_to_the_known_value(name, value):
    tree_arrays, policy = solve(name, 400)
    assert policy_values(tree_arrays.tree, tree_arrays.seats, policy).returns[0] == pytest.approx(value, abs=2e-3)
    assert exploitability(tree_arrays, policy) < 2e-3


def test_uniform_rock_paper_scissors_is_a_fixed_point():
    """Uniform play has no regret, so no step changes it."""
    _, policy = solve("rock_paper_scissors", 7)
    assert all(row.tolist() == [1 / 3] * 3 for row in policy)


def recursive_cfr(tree, seats, widths, steps):
    children = {}
    for node in range(1, len(tree.parent)):
        children.setdefault(int(tree.parent[node]), []).append(node)
    payoffs = {int(end): returns for end, returns in zip(tree.terminal, tree.returns, strict=True)}
    regrets, sums = ([np.zeros(width) for width in widths] for _ in range(2))

    def strategy(weights):
        return weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))

    def value(node, seat, own_reach, others_reach, strategies, regret_changes, average_weights):
        if node in payoffs:
            return payoffs[node][seat]
        child_nodes, total, is_own = children[node], 0.0, False
        gains = {}
        for child in child_nodes:
            state, choice = int(tree.info_state[child]), int(tree.choice[child])
            probability = tree.chance[child] if state < 0 else strategies[state][choice]
            is_own = state >= 0 and seats[state] == seat
            child_value = value(
                child,
                seat,
                own_reach * probability if is_own else own_reach,
                others_reach if is_own else others_reach * probability,
                strategies,
                regret_changes,
                average_weights,
            )
            total += probability * child_value
            gains[child] = child_value
        if is_own:
            for child in child_nodes:
                state, choice = int(tree.info_state[child]), int(tree.choice[child])
                regret_changes[state][choice] += others_reach * (gains[child] - total)
                average_weights[state] = own_reach
        return total

    for step in range(1, steps + 1):
        for seat in sorted(set(seats.tolist())):
            strategies_now, regret_changes_now, weight = (
                [strategy(row) for row in regrets],
                [np.zeros(width) for width in widths],
                {},
            )
            value(0, seat, 1.0, 1.0, strategies_now, regret_changes_now, weight)
            for state in np.flatnonzero(seats == seat):
                regrets[state] = np.maximum(regrets[state] + regret_changes_now[state], 0)
                sums[state] = sums[state] + step * weight[state] * strategies_now[state]
    return [strategy(row) for row in sums]


@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi", "signalling"])
def test_average_strategies_equal_a_recursive_cfr(name):
    tree_arrays, policy = solve(name, 9)
    widths = [len(legal) for legal in tree_arrays.legal]
    for row, expected in zip(policy, recursive_cfr(tree_arrays.tree, tree_arrays.seats, widths, 9), strict=True):
        assert row == pytest.approx(expected, abs=1e-12)


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
    folded,
    last_move_returns,
    policy_values,
)


@pytest.mark.parametrize(("name", "options"), [("kuhn_poker", {}), ("kuhn_poker", {"players": 3}), ("tiny_hanabi", {}), ("leduc_poker", {})])
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


def solved(name, steps, **options):
    found = walk(tree_of(make_game(name, options=options)))
    widths = np.array([len(legal) for legal in found.legal])
    policy = average_strategies(found.tree, found.seats, widths, steps)
    return found, policy


def exploitability(found, policy):
    value = policy_values(found.tree, found.seats, policy).returns
    gains = [policy_values(found.tree, found.seats, best_response(found.tree, found.seats, policy, seat)).returns[seat] - value[seat] for seat in (0, 1)]
    return sum(gains) / 2


@pytest.mark.parametrize(("name", "value"), [("kuhn_poker", -1 / 18), ("rock_paper_scissors", 0.0), ("rps_spock_lizard", 0.0)])
def test_it_comes_to_the_known_value(name, value):
    found, policy = solved(name, 400)
    assert policy_values(found.tree, found.seats, policy).returns[0] == pytest.approx(value, abs=2e-3)
    assert exploitability(found, policy) < 2e-3


def test_more_steps_are_nearer_the_equilibrium():
    gaps = [exploitability(*solved("kuhn_poker", steps)) for steps in (10, 100, 1000)]
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]


def test_by_hand_one_step_of_two_actions():
    """Rock, paper, scissors: uniform has no regret anywhere, so every step stays there, bit for bit."""
    _, policy = solved("rock_paper_scissors", 7)
    assert all(row.tolist() == [1 / 3] * 3 for row in policy)


def matrix_tree(payoffs):
    """Return the tree of a game in which seat 0 chooses a row and seat 1, unseen, a column; payoffs [rows, columns, 2]."""
    rows, columns = len(payoffs), len(payoffs[0])
    parent, state, choice = [-1], [-1], [-1]
    ends, returns = [], []
    for row in range(rows):
        parent, state, choice = [*parent, 0], [*state, 0], [*choice, row]
        here = len(parent) - 1
        for column in range(columns):
            parent, state, choice = [*parent, here], [*state, 1], [*choice, column]
            ends.append(len(parent) - 1)
            returns.append(payoffs[row][column])
    arrays = (np.array(one, dtype=np.int64) for one in (parent, state, choice))
    tree = GameTree(
        **dict(zip(("parent", "info_state", "choice"), arrays, strict=True)),
        chance=np.ones(len(parent)),
        terminal=np.array(ends),
        returns=np.array(returns, dtype=float),
    )
    return tree, np.array([0, 1]), np.array([rows, columns])


def test_the_sign_large_regret_is_an_action_to_play_more():
    """Prisoner's dilemma: defecting dominates. Who preferred the lower regret of update (1) would cooperate."""
    policy = average_strategies(*matrix_tree([[(3, 3), (0, 5)], [(5, 0), (1, 1)]]), 200)
    assert policy[0][1] > 0.99 and policy[1][1] > 0.99


def test_by_hand_two_steps():
    """Payoffs of seat 0: 4, 0 against columns 0, 1 in row 0; 1, 1 in row 1. Seat 1 gets the negative.

    Step 1, seat 0: uniform earns 1.5; rows earn 2 and 1: regrets 0.5 and 0 (cut off). Seat 1 then meets row 0:
    columns cost 4 and 0, uniform 2: regrets 0 and 2. Step 2, seat 0 plays row 0 against column 1: rows earn 0, 1, play 0:
    regrets 0.5 and 1. Seat 1 plays column 1 against (1/3, 2/3). Averages are (1 x uniform + 2 x step 2) / 3.
    """
    policy = average_strategies(*matrix_tree([[(4, -4), (0, 0)], [(1, -1), (1, -1)]]), 2)
    assert policy[0] == pytest.approx([(0.5 + 2) / 3, 0.5 / 3])
    assert policy[1] == pytest.approx([0.5 / 3, (0.5 + 2) / 3])


def test_rows_are_distributions_and_two_calls_agree():
    _, policy = solved("kuhn_poker", 30)
    assert all(row.min() >= 0 and row.sum() == pytest.approx(1) for row in policy)
    assert all(np.array_equal(a, b) for a, b in zip(policy, solved("kuhn_poker", 30)[1], strict=True))


def naive(tree, seats, widths, steps):
    children = {}
    for node in range(1, len(tree.parent)):
        children.setdefault(int(tree.parent[node]), []).append(node)
    paid = {int(end): returns for end, returns in zip(tree.terminal, tree.returns, strict=True)}
    regrets, sums = ([np.zeros(width) for width in widths] for _ in range(2))

    def strategy(weights):
        return weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))

    def value(node, seat, own, others, now, added, weight):
        if node in paid:
            return paid[node][seat]
        below, total, mine = children[node], 0.0, False
        gains = {}
        for child in below:
            state, choice = int(tree.info_state[child]), int(tree.choice[child])
            share = tree.chance[child] if state < 0 else now[state][choice]
            mine = state >= 0 and seats[state] == seat
            worth = value(child, seat, own * share if mine else own, others if mine else others * share, now, added, weight)
            total += share * worth
            gains[child] = worth
        if mine:
            for child in below:
                state, choice = int(tree.info_state[child]), int(tree.choice[child])
                added[state][choice] += others * (gains[child] - total)
                weight[state] = own
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
    found = walk(tree_of(make_game(name)))
    widths = np.array([len(legal) for legal in found.legal])
    policy = average_strategies(found.tree, found.seats, widths, 9)
    for row, wanted in zip(policy, naive(found.tree, found.seats, widths, 9), strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)

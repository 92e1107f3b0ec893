"""A game tree as arrays: exact values of all decisions, best responses, and CFR.

``policy_values`` evaluates a policy that plays every seat. For information state I of seat p,
with reach(h) the probability of history h and u_p(h) the expected return of seat p from there:

    V(I)    = sum over h in I of reach(h) u_p(h) / sum over h in I of reach(h)
    Q(I, a) = sum over h in I of reach(h) u_p(h a) / sum over h in I of reach(h)

By perfect recall, the seat's own factor of reach(h) is equal for all h in I and cancels. So the
values are also defined in states that the policy never reaches. There are I information states, T
histories, Z of them terminal, and P seats.

``average_strategies`` finds strategies near an equilibrium by counterfactual regret minimisation.
For information state I of seat p, with other_reach(h) the probability of h by the choices of
chance and the other seats, and u_p the seat's expected return under the current strategies

    R(I, a) <- max(R(I, a) + sum over h in I of other_reach(h) (u_p(h a) - u_p(h)), 0)
    sigma(I, a) = R(I, a) / sum over b of R(I, b),   uniform if no regret is above 0

seat after seat (CFR+, Tammelin, 2014). The result is the mean of sigma over the steps t = 1, 2,
..., weighted by t times the seat's own probability of reaching I. In a zero-sum game of two seats
the result approaches an equilibrium; for other games there is no such guarantee.

In CFR (Zinkevich et al., 2007) R may fall below 0 and then counts as 0 in sigma, and each step is
weighted only by the seat's own probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class GameTree:
    """Every history of a game, parents before children; T histories, Z of them terminal, P seats.

    History 0 is the root. The edge into history t leaves ``parent[t]``, either by the seat that
    acts in information state ``info_state[t]`` and takes its legal action ``choice[t]``, or by
    chance with probability ``chance[t]``.
    """

    parent: IntArray  # [T]; -1 at the root
    info_state: IntArray  # [T] information state the edge leaves; -1 for chance and at the root
    # [T] index in the information state's legal actions; -1 for chance and at the root
    choice: IntArray
    chance: FloatArray  # [T]; 1 for players' edges and at the root
    terminal: IntArray  # [Z] indices of the terminal histories
    returns: FloatArray  # [Z, P]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactValues:
    """Values of a policy in the game's units, and expected visits."""

    action: tuple[FloatArray, ...]  # [I] arrays [num_legal]: Q
    state: FloatArray  # [I]: V = sum over a of policy(a) Q(a)
    reach: FloatArray  # [I] expected visits in one play
    # [I] expected visits if the seat always moves towards I; if 0, Q and V are undefined and set to
    # 0
    other_reach: FloatArray
    returns: FloatArray  # [P] expected return of each seat


def policy_values(tree: GameTree, seats: IntArray, policy: Sequence[FloatArray]) -> ExactValues:
    """Return Q and V of every information state under a policy that plays every seat.

    Args:
        tree: every history.
        seats: the seat that acts in each information state, [I].
        policy: probabilities of the legal actions of each information state, I arrays [num_legal].
    """
    widths = np.array([len(row) for row in policy])
    starts = np.append(0, np.cumsum(widths))
    is_move = tree.info_state >= 0
    edge = tree.chance.copy()
    edge[is_move] = np.concatenate(policy)[starts[tree.info_state[is_move]] + tree.choice[is_move]]
    levels = levels_of(tree)
    expected = expected_returns(tree, edge, levels)
    mover = np.where(is_move, seats[tree.info_state], -1)
    is_mover = mover[:, None] == np.arange(expected.shape[1])[None, :]
    # [T, P] chance and all other seats
    other_reach = reach_of(tree, np.where(is_mover, 1.0, edge[:, None]), levels)
    moves = np.flatnonzero(is_move)
    state, parent, seat = tree.info_state[moves], tree.parent[moves], mover[moves]
    weight = other_reach[parent, seat]
    choice_index = starts[state] + tree.choice[moves]
    total = np.bincount(choice_index, weights=weight, minlength=starts[-1])
    weighted_returns = np.bincount(
        choice_index, weights=weight * expected[moves, seat], minlength=starts[-1]
    )
    action = np.split(weighted_returns / np.where(total > 0, total, 1.0), starts[1:-1])
    value = np.array([float(p @ q) for p, q in zip(policy, action, strict=True)])
    visits = np.bincount(
        state, weights=reach_of(tree, edge, levels)[moves], minlength=len(policy)
    ).astype(np.float64)
    return ExactValues(
        action=tuple(action),
        state=value,
        reach=visits,
        other_reach=total[starts[:-1]],
        returns=expected[0],
    )


def last_move_returns(tree: GameTree, seats: IntArray, policy: Sequence[FloatArray]) -> FloatArray:
    """Return for each move its seat's mean return over the episodes in which it is the last move.

    Args:
        tree: every history.
        seats: the seat that acts in each information state, [I].
        policy: probabilities of the legal actions of each information state, I arrays [num_legal].

    Returns:
        [sum of num_legal], in the order of the information states' legal actions; 0 for a move that
        is never the last.
    """
    starts = np.append(0, np.cumsum([len(row) for row in policy]))
    is_move, levels = tree.info_state >= 0, levels_of(tree)
    choice_index = np.where(is_move, starts[tree.info_state] + tree.choice, -1)
    edge = np.where(is_move, np.concatenate(policy)[choice_index], tree.chance)
    mover = seats[tree.info_state]
    last_choice = np.full((len(tree.parent), tree.returns.shape[1]), -1)
    for rows in levels[1:]:
        last_choice[rows] = last_choice[tree.parent[rows]]
        moves = rows[is_move[rows]]
        last_choice[moves, mover[moves]] = choice_index[moves]
    reach = reach_of(tree, edge, levels)[tree.terminal]
    weight, weighted_returns = np.zeros(starts[-1]), np.zeros(starts[-1])
    for seat, returns in enumerate(tree.returns.T):
        last_choices = last_choice[tree.terminal, seat]
        has_moved = last_choices >= 0
        np.add.at(weight, last_choices[has_moved], reach[has_moved])
        np.add.at(weighted_returns, last_choices[has_moved], (reach * returns)[has_moved])
    means: FloatArray = weighted_returns / np.where(weight > 0, weight, 1.0)
    return means


def best_response(
    tree: GameTree, seats: IntArray, policy: Sequence[FloatArray], seat: int
) -> list[FloatArray]:
    """Return the policy in which one seat plays its best response and the others are unchanged.

    Decisions are solved from the last to the first; of equally good actions the first is chosen,
    also in states that the others' policies never reach. The game must have perfect recall.
    """
    states = np.flatnonzero(seats == seat)
    if not len(states):
        return list(policy)
    # the seat's decisions that lead to each history
    num_decisions = np.zeros(len(tree.parent), dtype=np.int64)
    num_earlier = np.zeros(len(policy), dtype=np.int64)
    for rows in levels_of(tree)[1:]:
        state, parent = tree.info_state[rows], tree.parent[rows]
        is_own_turn = (state >= 0) & (seats[state] == seat)
        num_earlier[state[is_own_turn]] = num_decisions[parent[is_own_turn]]
        num_decisions[rows] = num_decisions[parent] + is_own_turn
    new_policy = list(policy)
    for num_before in range(int(num_earlier[states].max()), -1, -1):
        action = policy_values(tree, seats, new_policy).action
        for index in states[num_earlier[states] == num_before]:
            new_policy[index] = np.eye(len(action[index]))[int(action[index].argmax())]
    return new_policy


def fold_decisions(
    tree: GameTree, is_kept_state: BoolArray, profiles: Sequence[tuple[float, Sequence[FloatArray]]]
) -> GameTree:
    """Return a tree with some decisions only; chance and the other decisions become its payoffs.

    A history h of the new tree is the sequence of choices in the kept information states:

        payoff(h) = sum over p of share_p * sum over ends z whose choices in kept states are h of
                    P(all other choices and chance in z, by profile p) * payoff(z)

    so that policies of the kept states have the same value in both trees.

    Args:
        tree: every history.
        is_kept_state: whether the new tree keeps an information state, [I].
        profiles: (probability, policies of all states); one profile is drawn for the states that
            are not kept, and players do not see which. Policies of kept states have no effect.
    """
    is_move, levels = tree.info_state >= 0, levels_of(tree)
    is_kept = is_move & is_kept_state[tree.info_state]
    weight = np.zeros(len(tree.parent))
    for share, profile in profiles:
        starts = np.cumsum([0, *map(len, profile)])
        edge = tree.chance.copy()
        edge[is_move] = np.concatenate(profile)[
            starts[tree.info_state[is_move]] + tree.choice[is_move]
        ]
        weight += share * reach_of(tree, np.where(is_kept, 1.0, edge), levels)
    new_history = np.zeros(len(tree.parent), dtype=np.int64)  # number in the new tree, [T]
    edge_lists, num_histories = [np.array([[-1, -1, -1]])], 1
    for histories in levels[1:]:
        new_history[histories] = new_history[tree.parent[histories]]
        nodes = histories[is_kept[histories]]
        edges = np.stack((new_history[nodes], tree.info_state[nodes], tree.choice[nodes]), axis=1)
        new_edges, inverse = np.unique(edges, axis=0, return_inverse=True)
        new_history[nodes] = num_histories + inverse.reshape(-1)
        edge_lists.append(new_edges)
        num_histories += len(new_edges)
    parent, info_state, choice = np.concatenate(edge_lists).T
    terminal, inverse = np.unique(new_history[tree.terminal], return_inverse=True)
    returns = np.zeros((len(terminal), tree.returns.shape[1]))
    np.add.at(returns, inverse.reshape(-1), weight[tree.terminal, None] * tree.returns)
    return GameTree(
        parent=parent,
        info_state=info_state,
        choice=choice,
        chance=np.ones(num_histories),
        terminal=terminal,
        returns=returns,
    )


def expected_returns(tree: GameTree, edge: FloatArray, levels: Sequence[IntArray]) -> FloatArray:
    """Return u(h) = sum over children c of edge(c) u(c), the expected returns, [T, P]."""
    expected = np.zeros((len(tree.parent), tree.returns.shape[1]))
    expected[tree.terminal] = tree.returns
    for rows in reversed(levels[1:]):
        np.add.at(expected, tree.parent[rows], edge[rows, None] * expected[rows])
    return expected


def reach_of(tree: GameTree, edge: FloatArray, levels: Sequence[IntArray]) -> FloatArray:
    """Return for every history the product of the edges [T, ...] on the way to it, [T, ...]."""
    reach = np.ones_like(edge)
    for rows in levels[1:]:
        reach[rows] = reach[tree.parent[rows]] * edge[rows]
    return reach


def levels_of(tree: GameTree) -> list[IntArray]:
    """Return the histories of each depth, from the root on."""
    depth = [0]
    for parent in tree.parent[1:].tolist():
        depth.append(depth[parent] + 1)
    order = np.argsort(depth, kind="stable")
    counts = np.bincount(depth)
    return np.split(order, np.cumsum(counts)[:-1])


def average_strategies(
    tree: GameTree, seats: IntArray, widths: IntArray, steps: int, *, plus: bool = True
) -> list[FloatArray]:
    """Return the average strategy of each information state, I arrays [num_legal].

    Args:
        tree: every history; perfect recall.
        seats: the seat that acts in each information state, [I].
        widths: number of legal actions of each information state, [I].
        steps: number of regret updates of every seat, at least 1.
        plus: true: CFR+; false: CFR.
    """
    starts = np.append(0, np.cumsum(widths)).astype(np.int64)
    num_choices, state_of_choice = int(starts[-1]), np.repeat(np.arange(len(widths)), widths)
    levels, moves = levels_of(tree), np.flatnonzero(tree.info_state >= 0)
    state, parent = tree.info_state[moves], tree.parent[moves]
    mover, choice_index = seats[state], starts[state] + tree.choice[moves]
    is_own_edge = np.zeros((len(tree.parent), tree.returns.shape[1]), dtype=bool)
    is_own_edge[moves, mover] = True
    regrets, sums = np.zeros(num_choices), np.zeros(num_choices)
    edge = tree.chance.copy()
    for step in range(1, steps + 1):
        for seat in sorted(set(seats.tolist())):
            policy = _normalise(np.maximum(regrets, 0.0), state_of_choice, widths)
            edge[moves] = policy[choice_index]
            expected = expected_returns(tree, edge, levels)[:, seat]
            other_reach = reach_of(tree, np.where(is_own_edge[:, seat], 1.0, edge), levels)
            own_reach = reach_of(tree, np.where(is_own_edge[:, seat], edge, 1.0), levels)
            is_own = mover == seat
            gains = other_reach[parent[is_own]] * (
                expected[moves[is_own]] - expected[parent[is_own]]
            )
            changes = np.bincount(choice_index[is_own], weights=gains, minlength=num_choices)
            regrets = np.maximum(regrets + changes, 0.0) if plus else regrets + changes
            # by perfect recall, equal for all histories of a state
            seat_reach = np.zeros(num_choices)
            seat_reach[choice_index[is_own]] = own_reach[parent[is_own]]
            sums += (step if plus else 1) * seat_reach * policy
    return np.split(_normalise(sums, state_of_choice, widths), starts[1:-1])


def _normalise(weights: FloatArray, state_of_choice: IntArray, widths: IntArray) -> FloatArray:
    totals = np.bincount(state_of_choice, weights=weights, minlength=len(widths))[state_of_choice]
    strategies: FloatArray = np.where(
        totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / widths[state_of_choice]
    )
    return strategies

"""Counterfactual regret minimisation on a game tree: average strategies, near an equilibrium.

For information state I of seat p, with others(h) the probability that chance and the other seats
bring h about, and u_p the seat's expected return under the strategies of now,

    R(I, a) <- max(R(I, a) + sum over h in I of others(h) (u_p(h a) - u_p(h)), 0)
    sigma(I, a) = R(I, a) / sum over b of R(I, b),   uniform where no regret is above 0

seat after seat (CFR+, Tammelin, 2014). The answer is the mean over the steps t = 1, 2, ... of
sigma, weighted by t times the seat's own probability to come to I. It comes near an equilibrium of
two opposed seats; with more seats, or payoffs of no constant sum, nothing is promised.

CFR (Zinkevich et al., 2007) lets R fall below 0, where it counts as 0 in sigma, and weights each
step by the seat's own probability alone.
"""

from __future__ import annotations

import numpy as np

from sparring.core.records import FloatArray, IntArray
from sparring.ops.game_tree import GameTree, expected_returns, levels_of, reached


def average_strategies(
    tree: GameTree, seats: IntArray, widths: IntArray, steps: int, *, plus: bool = True
) -> list[FloatArray]:
    """Return the average strategy of each information state, I arrays [num_legal].

    Args:
        tree: every history; perfect recall.
        seats: the seat that acts in each information state, [I].
        widths: number of legal actions of each, [I].
        steps: how often regrets are added for every seat, at least 1.
        plus: CFR+; False: CFR.
    """
    starts = np.append(0, np.cumsum(widths)).astype(np.int64)
    size, of = int(starts[-1]), np.repeat(np.arange(len(widths)), widths)
    levels, moves = levels_of(tree), np.flatnonzero(tree.info_state >= 0)
    state, parent = tree.info_state[moves], tree.parent[moves]
    mover, slot = seats[state], starts[state] + tree.choice[moves]
    mine = np.zeros((len(tree.parent), tree.returns.shape[1]), dtype=bool)
    mine[moves, mover] = True
    regrets, sums = np.zeros(size), np.zeros(size)
    edge = tree.chance.copy()
    for step in range(1, steps + 1):
        for seat in sorted(set(seats.tolist())):
            policy = _matched(np.maximum(regrets, 0.0), of, widths)
            edge[moves] = policy[slot]
            worth = expected_returns(tree, edge, levels)[:, seat]
            others = reached(tree, np.where(mine[:, seat], 1.0, edge), levels)
            own = reached(tree, np.where(mine[:, seat], edge, 1.0), levels)
            ours = mover == seat
            gain = others[parent[ours]] * (worth[moves[ours]] - worth[parent[ours]])
            added = np.bincount(slot[ours], weights=gain, minlength=size)
            regrets = np.maximum(regrets + added, 0.0) if plus else regrets + added
            # by perfect recall the same for all histories of a state
            came = np.zeros(size)
            came[slot[ours]] = own[parent[ours]]
            sums += (step if plus else 1) * came * policy
    return np.split(_matched(sums, of, widths), starts[1:-1])


def _matched(weights: FloatArray, of: IntArray, widths: IntArray) -> FloatArray:
    """Return weights [num_actions] in proportion within each state; uniform where all are 0."""
    total = np.bincount(of, weights=weights, minlength=len(widths))[of]
    found: FloatArray = np.where(
        total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / widths[of]
    )
    return found

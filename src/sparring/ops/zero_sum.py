"""The value of a game of two opposed seats at equilibrium, by linear programming in sequence form.

A sequence of a seat is its last own decision on the way (none at the start). With x and y the
realisation plans of seats 0 and 1, A[i, j] the payoff to seat 0, chance included, of the terminal
histories where the seats' last sequences are i and j, and E x = e, F y = f the plans' own sums,

    max over x >= 0, q of q_0   so that   E x = e,   F^T q <= A^T x

is the value to seat 0 (Koller, Megiddo and von Stengel, 1994).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, hstack

from sparring.ops.game_tree import GameTree
from sparring.types import FloatArray, IntArray


def equilibrium_value(tree: GameTree, seats: IntArray, widths: IntArray) -> float:
    """Return what seat 0 earns where both seats play an equilibrium of a zero-sum game.

    Args:
        tree: every history; perfect recall; the returns of the two seats sum to 0.
        seats: the seat that acts in each information state, 0 or 1, [I].
        widths: number of legal actions of each information state, [I].

    Raises:
        ArithmeticError: the solver found no optimum.
    """
    first, mine = _sequences(seats, widths)
    last = _last_sequences(tree, seats, first)
    payoff = _payoffs(tree, last, mine)
    plans, sums = zip(
        *(_constraints(tree, seats, widths, first, last, mine, seat) for seat in (0, 1)),
        strict=True,
    )
    cost = np.zeros(mine[0] + plans[1].shape[0])
    cost[mine[0]] = -1.0
    empty = coo_matrix((plans[0].shape[0], plans[1].shape[0]))
    found = linprog(
        cost,
        A_ub=hstack([-payoff.T, plans[1].T]).tocsr(),
        b_ub=np.zeros(mine[1]),
        A_eq=hstack([plans[0], empty]).tocsr(),
        b_eq=sums[0],
        bounds=[(0, None)] * mine[0] + [(None, None)] * plans[1].shape[0],
        method="highs",
    )
    if not found.success:
        raise ArithmeticError(f"The equilibrium was not found: {found.message}")
    return float(-found.fun)


def _sequences(seats: IntArray, widths: IntArray) -> tuple[IntArray, tuple[int, int]]:
    """Return each information state's first sequence of its seat, [I], and how many there are."""
    first, count = np.zeros(len(seats), dtype=np.int64), [1, 1]
    for state, (seat, width) in enumerate(zip(seats.tolist(), widths.tolist(), strict=True)):
        first[state] = count[seat]
        count[seat] += width
    return first, (count[0], count[1])


def _last_sequences(tree: GameTree, seats: IntArray, first: IntArray) -> IntArray:
    """Return each seat's last sequence at every history, [T, 2]; parents come before children."""
    last = np.zeros((len(tree.parent), 2), dtype=np.int64)
    rows = zip(tree.parent.tolist(), tree.info_state.tolist(), tree.choice.tolist(), strict=True)
    for history, (parent, state, choice) in enumerate(rows):
        if parent >= 0:
            last[history] = last[parent]
        if state >= 0:
            last[history, seats[state]] = first[state] + choice
    return last


def _payoffs(tree: GameTree, last: IntArray, mine: tuple[int, int]) -> coo_matrix:
    """Return the payoffs to seat 0 by the seats' last sequences, weighted by chance."""
    chance = np.ones(len(tree.parent))
    for history, (parent, edge) in enumerate(
        zip(tree.parent.tolist(), tree.chance.tolist(), strict=True)
    ):
        if parent >= 0:
            chance[history] = chance[parent] * edge
    weight: FloatArray = chance[tree.terminal] * tree.returns[:, 0]
    return coo_matrix((weight, (last[tree.terminal, 0], last[tree.terminal, 1])), shape=mine)


def _constraints(
    tree: GameTree,
    seats: IntArray,
    widths: IntArray,
    first: IntArray,
    last: IntArray,
    mine: tuple[int, int],
    seat: int,
) -> tuple[coo_matrix, FloatArray]:
    """Return the sums of a seat's realisation plan: 1 at first, then what leads to each state."""
    moves = np.flatnonzero(tree.info_state >= 0)
    before = np.zeros(
        len(seats), dtype=np.int64
    )  # the sequence that leads to each information state
    before[tree.info_state[moves]] = last[tree.parent[moves], seats[tree.info_state[moves]]]
    rows, columns, values = [0], [0], [1.0]
    for row, state in enumerate(np.flatnonzero(seats == seat).tolist(), start=1):
        own = range(first[state], first[state] + widths[state])
        rows += [row] * (len(own) + 1)
        columns += [*own, int(before[state])]
        values += [1.0] * len(own) + [-1.0]
    matrix = coo_matrix((values, (rows, columns)), shape=(rows[-1] + 1, mine[seat]))
    sums = np.zeros(rows[-1] + 1)
    sums[0] = 1.0
    return matrix, sums

"""Equilibria of games of two opposed seats, by linear programming in sequence form.

With x and y the realisation plans of seats 0 and 1, A the payoffs to seat 0 by the seats' last
sequences, and E x = e, F y = f the plans' own sums (``sequence_form``),

    max over x >= 0, q of q_0   so that   E x = e,   F^T q <= A^T x

is the value to seat 0 (Koller, Megiddo and von Stengel, 1994); y is the dual of the last line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix, hstack

from sparring.ops.game_tree import GameTree
from sparring.ops.sequence_form import SeatForm, sequence_form
from sparring.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Equilibrium:
    """What both seats play, and what seat 0 earns by it."""

    value: float
    plans: tuple[FloatArray, FloatArray]  # realisation plans, [S] of each seat


def equilibrium_value(tree: GameTree, seats: IntArray, widths: IntArray) -> float:
    """Return what seat 0 earns where both seats play an equilibrium of a zero-sum game.

    Args:
        tree: every history; perfect recall; the returns of the two seats sum to 0.
        seats: the seat that acts in each information state, 0 or 1, [I].
        widths: number of legal actions of each information state, [I].

    Raises:
        ArithmeticError: the solver found no optimum.
    """
    form = sequence_form(tree, seats, widths)
    return equilibrium(form.seats, form.matrix(tree.returns[:, 0])).value


def equilibrium(
    seats: tuple[SeatForm, SeatForm],
    payoffs: csr_matrix,
    allowed: tuple[BoolArray, BoolArray] | None = None,
) -> Equilibrium:
    """Return an equilibrium of a zero-sum game, or of one with fewer actions.

    Args:
        seats: of ``sequence_form``.
        payoffs: to seat 0, [S of seat 0, S of seat 1].
        allowed: of each seat which sequences it may use, [S]; one action at least in every state
            that can be come to. None: all.

    Raises:
        ArithmeticError: the solver found no optimum.
    """
    own, other = allowed or (np.ones(seats[0].size, bool), np.ones(seats[1].size, bool))
    (mine, sums), (theirs, _) = _constraints(seats[0]), _constraints(seats[1])
    cost = np.zeros(seats[0].size + theirs.shape[0])
    cost[seats[0].size] = -1.0
    empty = coo_matrix((mine.shape[0], theirs.shape[0]))
    found = linprog(
        cost,
        A_ub=hstack([-payoffs.T, theirs.T]).tocsr()[other],
        b_ub=np.zeros(int(other.sum())),
        A_eq=hstack([mine, empty]).tocsr(),
        b_eq=sums,
        bounds=[(0, None if may else 0) for may in own] + [(None, None)] * theirs.shape[0],
        method="highs",
    )
    if not found.success:
        raise ArithmeticError(f"The equilibrium was not found: {found.message}")
    answer = np.zeros(seats[1].size)
    answer[other] = np.maximum(-found.ineqlin.marginals, 0.0)
    plans = (np.maximum(found.x[: seats[0].size], 0.0), answer)
    return Equilibrium(value=float(-found.fun), plans=plans)


def _constraints(seat: SeatForm) -> tuple[coo_matrix, FloatArray]:
    """Return the sums of a seat's realisation plan: 1 at first, then what leads to each state."""
    count = len(seat.states)
    rows = np.concatenate([[0], seat.owner + 1, np.arange(count) + 1])
    columns = np.concatenate([np.arange(seat.size), seat.before])
    values = np.concatenate([np.ones(seat.size), -np.ones(count)])
    sums = np.zeros(count + 1)
    sums[0] = 1.0
    return coo_matrix((values, (rows, columns)), shape=(count + 1, seat.size)), sums

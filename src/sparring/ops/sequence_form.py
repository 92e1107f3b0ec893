"""The sequence form of a game of two seats: policies as vectors in which payoffs are linear.

A sequence of a seat is its last own decision on the way; number 0 is none yet. With pi(a|I) a
policy and s(I) the sequence that leads to information state I, its realisation plan is

    x[0] = 1,    x[(I, a)] = x[s(I)] pi(a|I)

and the expected return of seat p is x^T A_p y, with A_p[i, j] its returns, weighted by chance, at
the ends where the seats' last sequences are i and j (Koller, Megiddo and von Stengel, 1994). So
the plan of a policy that is drawn once per play is the weighted mean of the plans. Needs perfect
recall.

Equilibria of games of two opposed seats, by linear programming in sequence form.

With x and y the realisation plans of seats 0 and 1, A the payoffs to seat 0 by the seats' last
sequences, and E x = e, F y = f the plans' own sums (``sequence_form``),

    max over x >= 0, q of q_0   so that   E x = e,   F^T q <= A^T x

is the value to seat 0 (Koller, Megiddo and von Stengel, 1994); y is the dual of the last line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix, hstack

from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.ops.game_tree import GameTree

TIE = 1e-12  # relative: actions that are worth so little less are as good


class Level(NamedTuple):
    """Information states of a seat before which it decided equally often, and their actions.

    Attributes:
        states: their positions among the seat's states, [L].
        sequences: of all their actions, [A].
        owner: of each sequence its state's place in ``states``, [A].
        starts: of each state its first action's place in ``sequences``, [L].
    """

    states: IntArray
    sequences: IntArray
    owner: IntArray
    starts: IntArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SeatForm:
    """The sequences of one seat; I information states of its own, S sequences, number 0 among them.

    The sequences after number 0 are the actions of state 0, then those of state 1, and so on.
    """

    states: IntArray  # [I] numbers of its information states in the game
    first: IntArray  # [I] the sequence of the state's first action
    width: IntArray  # [I] legal actions
    before: IntArray  # [I] the sequence that leads to the state
    owner: IntArray  # [S - 1] the state that each sequence after number 0 is an action of
    levels: tuple[Level, ...]  # by own decisions made before
    reach: csr_matrix  # [I, S of the other seat] chance on the way to the state's histories

    @property
    def size(self) -> int:
        """The number of sequences, S."""
        return 1 + len(self.owner)

    def plan(self, policy: FloatArray) -> FloatArray:
        """Return the realisation plan of a policy, [S].

        Args:
            policy: probabilities by sequence, [S]; entry 0 says nothing.
        """
        plan: FloatArray = np.ones(self.size)
        for level in self.levels:
            came = plan[self.before[level.states]][level.owner]
            plan[level.sequences] = came * policy[level.sequences]
        return plan

    def policy(self, plan: FloatArray, otherwise: FloatArray) -> FloatArray:
        """Return the policy that has this realisation plan, [S].

        Args:
            plan: [S].
            otherwise: what is played in states that the plan never comes to, [S].
        """
        there = plan[self.before][self.owner]
        came = there > 0
        policy = otherwise.copy()
        policy[1:][came] = plan[1:][came] / there[came]
        return policy

    def normalised(self, weights: FloatArray) -> FloatArray:
        """Return the policy that plays in proportion to weights, [S]; alike where all are 0.

        Args:
            weights: at least 0, [S]; entry 0 says nothing.
        """
        total = np.bincount(self.owner, weights=weights[1:], minlength=len(self.states))[self.owner]
        alike = 1 / self.width[self.owner]
        found = np.ones(self.size)
        found[1:] = np.where(total > 0, weights[1:] / np.where(total > 0, total, 1.0), alike)
        return found

    def values(
        self, payoff: FloatArray, policy: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what each sequence is worth, and each state, weighted by the others' reach.

        Args:
            payoff: what ends at each sequence earn, A y, [S].
            policy: how the seat goes on, [S]; None: by its best actions.

        Returns:
            [S], of which entry 0 is the value of the game, and [I].
        """
        worth, state = payoff.copy(), np.zeros(len(self.states))
        for level in reversed(self.levels):
            own = worth[level.sequences]
            if policy is None:
                found = np.maximum.reduceat(own, level.starts)
            else:
                found = np.add.reduceat(policy[level.sequences] * own, level.starts)
            state[level.states] = found
            worth += np.bincount(self.before[level.states], weights=found, minlength=self.size)
        return worth, state

    def best_response(self, payoff: FloatArray) -> tuple[FloatArray, float]:
        """Return the first best action in every state, as a policy [S], and the game's value.

        Args:
            payoff: what ends at each sequence earn, A y, [S].
        """
        worth, state = self.values(payoff, None)
        best = worth[1:] >= (state - TIE * (1.0 + np.abs(state)))[self.owner]
        policy = np.zeros(self.size)
        _, chosen = np.unique(self.owner[best], return_index=True)
        policy[1:][np.flatnonzero(best)[chosen]] = 1.0
        return policy, float(worth[0])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SequenceForm:
    """A game of two seats in sequence form."""

    seats: tuple[SeatForm, SeatForm]
    last: IntArray  # [Z, 2] each seat's last sequence at every end
    chance: FloatArray  # [Z] product of chance on the way to every end

    def matrix(self, worth: FloatArray) -> csr_matrix:
        """Return [S of seat 0, S of seat 1]: a value of the ends, [Z], weighted by chance."""
        shape = (self.seats[0].size, self.seats[1].size)
        return csr_matrix((self.chance * worth, (self.last[:, 0], self.last[:, 1])), shape=shape)


def one_choice(choices: int) -> SeatForm:
    """Return the sequences of a seat that chooses once, and blindly.

    Args:
        choices: how many it has.
    """
    zero, width = np.zeros(1, dtype=np.int64), np.array([choices])
    return SeatForm(
        states=zero,
        first=zero + 1,
        width=width,
        before=zero,
        owner=np.repeat(zero, choices),
        levels=_levels(zero + 1, width, zero),
        reach=csr_matrix((1, 1)),
    )


def sequence_form(tree: GameTree, seats: IntArray, widths: IntArray) -> SequenceForm:
    """Return the sequence form of a game.

    Args:
        tree: every history; perfect recall; two seats.
        seats: the seat that acts in each information state, 0 or 1, [I].
        widths: number of legal actions of each information state, [I].
    """
    first, sizes = _sequences(seats, widths)
    last, chance = _walked(tree, seats, first)
    moves = np.flatnonzero(tree.info_state >= 0)
    state, at = tree.info_state[moves], tree.parent[moves]
    before: IntArray = np.zeros(len(seats), dtype=np.int64)
    before[state] = last[at, seats[state]]
    _, once = np.unique(at, return_index=True)  # a history has an edge per action
    visits = state[once], last[at[once], 1 - seats[state[once]]], chance[at[once]]

    def form(seat: int) -> SeatForm:
        own = np.flatnonzero(seats == seat)
        return SeatForm(
            states=own,
            first=first[own],
            width=widths[own],
            before=before[own],
            owner=np.repeat(np.arange(len(own)), widths[own]),
            levels=_levels(first[own], widths[own], before[own]),
            reach=_reach(own, visits, sizes[1 - seat]),
        )

    return SequenceForm(
        seats=(form(0), form(1)), last=last[tree.terminal], chance=chance[tree.terminal]
    )


def _sequences(seats: IntArray, widths: IntArray) -> tuple[IntArray, tuple[int, int]]:
    """Return each information state's first sequence of its seat, [I], and how many there are."""
    first, count = np.zeros(len(seats), dtype=np.int64), [1, 1]
    for state, (seat, width) in enumerate(zip(seats.tolist(), widths.tolist(), strict=True)):
        first[state] = count[seat]
        count[seat] += width
    return first, (count[0], count[1])


def _walked(tree: GameTree, seats: IntArray, first: IntArray) -> tuple[IntArray, FloatArray]:
    """Return each seat's last sequence, [T, 2], and the product of chance, [T], at every history.
    Parents come before children."""
    last = np.zeros((len(tree.parent), 2), dtype=np.int64)
    chance = tree.chance.copy()
    rows = zip(tree.parent.tolist(), tree.info_state.tolist(), tree.choice.tolist(), strict=True)
    for history, (parent, state, choice) in enumerate(rows):
        if parent >= 0:
            last[history] = last[parent]
            chance[history] *= chance[parent]
        if state >= 0:
            last[history, seats[state]] = first[state] + choice
    return last, chance


def _levels(first: IntArray, width: IntArray, before: IntArray) -> tuple[Level, ...]:
    """Return a seat's states by the number of own decisions before them."""
    owner = np.repeat(np.arange(len(first)), width)  # of sequence number - 1
    depth: IntArray = np.zeros(len(first), dtype=np.int64)
    parent = np.where(before > 0, owner[before - 1] if len(owner) else 0, -1)
    for _ in range(len(first)):
        deeper = np.where(parent >= 0, depth[parent] + 1, 0)
        if (deeper == depth).all():
            break
        depth = deeper
    found = []
    for number in range(int(depth.max(initial=-1)) + 1):
        states = np.flatnonzero(depth == number)
        place = np.repeat(np.arange(len(states)), width[states])
        starts = np.cumsum(width[states]) - width[states]
        sequences = first[states][place] + np.arange(len(place)) - starts[place]
        found.append(Level(states, sequences, place, starts))
    return tuple(found)


def _reach(own: IntArray, visits: tuple[IntArray, IntArray, FloatArray], others: int) -> csr_matrix:
    """Return [I, S of the other seat]: chance on the way to the histories of a seat's states."""
    state, sequence, chance = visits
    mine = np.isin(state, own)
    where = np.searchsorted(own, state[mine])
    return csr_matrix((chance[mine], (where, sequence[mine])), shape=(len(own), others))


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

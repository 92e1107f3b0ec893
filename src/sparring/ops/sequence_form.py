"""The sequence form of a game of two seats: policies as vectors in which payoffs are linear.

A sequence of a seat is named by its last decision; number 0 is the empty sequence. With pi(a|I) a
policy and s(I) the sequence that leads to information state I, its realisation plan is

    x[0] = 1,    x[(I, a)] = x[s(I)] pi(a|I)

and the expected return of seat p is x^T A_p y, with A_p[i, j] the returns of seat p, weighted by
chance, at the ends with last sequences i and j (Koller, Megiddo and von Stengel, 1994). The plan of
a mixture, drawn once per episode, is the weighted mean of the plans. The game must have perfect
recall.

``equilibrium`` solves zero-sum games by linear programming. With x and y the realisation plans of
seats 0 and 1, A the payoffs to seat 0 by last sequences, and E x = e, F y = f the constraints of
the plans,

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

TIE_TOLERANCE = 1e-12  # relative difference of values up to which actions are equally good


class Level(NamedTuple):
    """Information states of a seat with the same number of the seat's decisions before them.

    Attributes:
        states: their indices among the seat's states, [L].
        sequences: sequences of all their actions, [A].
        owner: index in ``states`` of each sequence's state, [A].
        starts: index in ``sequences`` of each state's first action, [L].
    """

    states: IntArray
    sequences: IntArray
    owner: IntArray
    starts: IntArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SeatForm:
    """The S sequences of one seat and its I information states.

    Sequence 0 is empty; then come the actions of state 0, of state 1, and so on.
    """

    states: IntArray  # [I] indices of its information states in the game
    first: IntArray  # [I] the sequence of the state's first action
    width: IntArray  # [I] legal actions
    parent: IntArray  # [I] the sequence that leads to the state
    owner: IntArray  # [S - 1] the state of each sequence except number 0
    levels: tuple[Level, ...]  # by number of the seat's decisions before
    reach: csr_matrix  # [I, S of the other seat] probability of chance before the state's histories

    @property
    def size(self) -> int:
        """The number of sequences, S."""
        return 1 + len(self.owner)

    def plan(self, policy: FloatArray) -> FloatArray:
        """Return the realisation plan of a policy, [S].

        Args:
            policy: probabilities by sequence, [S]; entry 0 is ignored.
        """
        plan: FloatArray = np.ones(self.size)
        for level in self.levels:
            reach = plan[self.parent[level.states]][level.owner]
            plan[level.sequences] = reach * policy[level.sequences]
        return plan

    def policy(self, plan: FloatArray, default_policy: FloatArray) -> FloatArray:
        """Return the policy that has this realisation plan, [S].

        Args:
            plan: [S].
            default_policy: the policy in states that the plan never reaches, [S].
        """
        reach = plan[self.parent][self.owner]
        is_reached = reach > 0
        policy = default_policy.copy()
        policy[1:][is_reached] = plan[1:][is_reached] / reach[is_reached]
        return policy

    def normalised_policy(self, weights: FloatArray) -> FloatArray:
        """Return the policy in proportion to weights, [S]; uniform in states with weights of 0.

        Args:
            weights: at least 0, [S]; entry 0 is ignored.
        """
        total = np.bincount(self.owner, weights=weights[1:], minlength=len(self.states))[self.owner]
        uniform = 1 / self.width[self.owner]
        policy = np.ones(self.size)
        policy[1:] = np.where(total > 0, weights[1:] / np.where(total > 0, total, 1.0), uniform)
        return policy

    def values(
        self, payoffs: FloatArray, policy: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the values of sequences and of states, weighted by the others' reach.

        Args:
            payoffs: payoffs of the ends at each sequence, A y, [S].
            policy: policy of the seat, [S]; None: the best actions.

        Returns:
            Values of sequences, [S], with the value of the game at 0, and of states, [I].
        """
        values, state_values = payoffs.copy(), np.zeros(len(self.states))
        for level in reversed(self.levels):
            action_values = values[level.sequences]
            if policy is None:
                worth = np.maximum.reduceat(action_values, level.starts)
            else:
                worth = np.add.reduceat(policy[level.sequences] * action_values, level.starts)
            state_values[level.states] = worth
            values += np.bincount(self.parent[level.states], weights=worth, minlength=self.size)
        return values, state_values

    def best_response(self, payoffs: FloatArray) -> tuple[FloatArray, float]:
        """Return the first best action in every state, as a policy [S], and the game's value.

        Args:
            payoffs: payoffs of the ends at each sequence, A y, [S].
        """
        values, state_values = self.values(payoffs, None)
        is_best = (
            values[1:] >= (state_values - TIE_TOLERANCE * (1.0 + np.abs(state_values)))[self.owner]
        )
        policy = np.zeros(self.size)
        _, first_best = np.unique(self.owner[is_best], return_index=True)
        policy[1:][np.flatnonzero(is_best)[first_best]] = 1.0
        return policy, float(values[0])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SequenceForm:
    """A game of two seats in sequence form."""

    seats: tuple[SeatForm, SeatForm]
    last: IntArray  # [Z, 2] each seat's last sequence at every end
    chance: FloatArray  # [Z] product of chance on the way to every end

    def matrix(self, values: FloatArray) -> csr_matrix:
        """Return values of the ends, [Z], weighted by chance, as [S of seat 0, S of seat 1]."""
        shape = (self.seats[0].size, self.seats[1].size)
        return csr_matrix((self.chance * values, (self.last[:, 0], self.last[:, 1])), shape=shape)


def one_choice(num_choices: int) -> SeatForm:
    """Return the sequences of a seat that chooses once, without information.

    Args:
        num_choices: number of choices.
    """
    zero, width = np.zeros(1, dtype=np.int64), np.array([num_choices])
    return SeatForm(
        states=zero,
        first=zero + 1,
        width=width,
        parent=zero,
        owner=np.repeat(zero, num_choices),
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
    last, chance = _last_sequences(tree, seats, first)
    moves = np.flatnonzero(tree.info_state >= 0)
    state, parent = tree.info_state[moves], tree.parent[moves]
    parent_sequences: IntArray = np.zeros(len(seats), dtype=np.int64)
    parent_sequences[state] = last[parent, seats[state]]
    _, edges = np.unique(parent, return_index=True)  # a history has an edge per action
    visits = (state[edges], last[parent[edges], 1 - seats[state[edges]]], chance[parent[edges]])

    def make_form(seat: int) -> SeatForm:
        states = np.flatnonzero(seats == seat)
        return SeatForm(
            states=states,
            first=first[states],
            width=widths[states],
            parent=parent_sequences[states],
            owner=np.repeat(np.arange(len(states)), widths[states]),
            levels=_levels(first[states], widths[states], parent_sequences[states]),
            reach=_reach(states, visits, sizes[1 - seat]),
        )

    return SequenceForm(
        seats=(make_form(0), make_form(1)), last=last[tree.terminal], chance=chance[tree.terminal]
    )


def _sequences(seats: IntArray, widths: IntArray) -> tuple[IntArray, tuple[int, int]]:
    """Return each information state's first sequence, [I], and each seat's number of sequences."""
    first_sequences, num_sequences = np.zeros(len(seats), dtype=np.int64), [1, 1]
    for state, (seat, width) in enumerate(zip(seats.tolist(), widths.tolist(), strict=True)):
        first_sequences[state] = num_sequences[seat]
        num_sequences[seat] += width
    return first_sequences, (num_sequences[0], num_sequences[1])


def _last_sequences(
    tree: GameTree, seats: IntArray, first: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return each seat's last sequence, [T, 2], and the product of chance, [T]."""
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


def _levels(first: IntArray, width: IntArray, parent_sequence: IntArray) -> tuple[Level, ...]:
    """Return a seat's states by the number of own decisions before them."""
    owner = np.repeat(np.arange(len(first)), width)  # of sequence number - 1
    depth: IntArray = np.zeros(len(first), dtype=np.int64)
    parent = np.where(parent_sequence > 0, owner[parent_sequence - 1] if len(owner) else 0, -1)
    for _ in range(len(first)):
        next_depth = np.where(parent >= 0, depth[parent] + 1, 0)
        if (next_depth == depth).all():
            break
        depth = next_depth
    levels = []
    for number in range(int(depth.max(initial=-1)) + 1):
        states = np.flatnonzero(depth == number)
        place = np.repeat(np.arange(len(states)), width[states])
        starts = np.cumsum(width[states]) - width[states]
        sequences = first[states][place] + np.arange(len(place)) - starts[place]
        levels.append(Level(states, sequences, place, starts))
    return tuple(levels)


def _reach(
    states: IntArray, visits: tuple[IntArray, IntArray, FloatArray], num_columns: int
) -> csr_matrix:
    """Return [I, S of the other seat]: chance on the way to the histories of a seat's states."""
    state, sequence, chance = visits
    is_own = np.isin(state, states)
    rows = np.searchsorted(states, state[is_own])
    return csr_matrix((chance[is_own], (rows, sequence[is_own])), shape=(len(states), num_columns))


@dataclass(frozen=True, kw_only=True, slots=True)
class Equilibrium:
    """The realisation plans of both seats, and the expected return of seat 0."""

    value: float
    plans: tuple[FloatArray, FloatArray]  # realisation plans, [S] of each seat


def equilibrium_value(tree: GameTree, seats: IntArray, widths: IntArray) -> float:
    """Return the value to seat 0 of a zero-sum game.

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
    """Return an equilibrium of a zero-sum game, which may be restricted to some actions.

    Args:
        seats: both seats, from ``sequence_form``.
        payoffs: payoffs to seat 0, [S of seat 0, S of seat 1].
        allowed: for each seat, whether it may use a sequence, [S]; at least one action in every
            state that it can reach. None: all sequences.

    Raises:
        ArithmeticError: the solver found no optimum.
    """
    is_first_allowed, is_second_allowed = allowed or (
        np.ones(seats[0].size, bool),
        np.ones(seats[1].size, bool),
    )
    (first_matrix, sums), (second_matrix, _) = _constraints(seats[0]), _constraints(seats[1])
    cost = np.zeros(seats[0].size + second_matrix.shape[0])
    cost[seats[0].size] = -1.0
    empty = coo_matrix((first_matrix.shape[0], second_matrix.shape[0]))
    program = linprog(
        cost,
        A_ub=hstack([-payoffs.T, second_matrix.T]).tocsr()[is_second_allowed],
        b_ub=np.zeros(int(is_second_allowed.sum())),
        A_eq=hstack([first_matrix, empty]).tocsr(),
        b_eq=sums,
        bounds=[(0, None if is_allowed else 0) for is_allowed in is_first_allowed]
        + [(None, None)] * second_matrix.shape[0],
        method="highs",
    )
    if not program.success:
        raise ArithmeticError(f"The equilibrium was not found: {program.message}")
    second_plan = np.zeros(seats[1].size)
    second_plan[is_second_allowed] = np.maximum(-program.ineqlin.marginals, 0.0)
    plans = (np.maximum(program.x[: seats[0].size], 0.0), second_plan)
    return Equilibrium(value=float(-program.fun), plans=plans)


def _constraints(seat: SeatForm) -> tuple[coo_matrix, FloatArray]:
    """Return the constraints of a seat's realisation plan, E and e."""
    num_states = len(seat.states)
    rows = np.concatenate([[0], seat.owner + 1, np.arange(num_states) + 1])
    columns = np.concatenate([np.arange(seat.size), seat.parent])
    values = np.concatenate([np.ones(seat.size), -np.ones(num_states)])
    sums = np.zeros(num_states + 1)
    sums[0] = 1.0
    return coo_matrix((values, (rows, columns)), shape=(num_states + 1, seat.size)), sums

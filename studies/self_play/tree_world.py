"""The world of a zero-sum game of two seats with a small tree.

A policy has the probabilities of its seat's actions and the realisation plan that follows from
them, so payoffs and mixtures are linear (``ops/sequence_form.py``). A step of improvement is a step
of the natural policy gradient in logits, at every information state that the opponents' policy
reaches,

    pi(a|I)  <-  pi(a|I) exp(rate * (Q(I, a) - V(I)) / largest payoff),  normalised,

with no probability below ``FLOOR``, so that an abandoned action can be learnt again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import csr_matrix

from sparring.core.errors import ConfigError
from sparring.core.records import FloatArray, IntArray
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import GameTree
from sparring.ops.sequence_form import SeatForm, equilibrium, one_choice, sequence_form
from studies.self_play.worlds import Opponents, Oracle, Start

FLOOR = 1e-4
TIE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """The policy of one seat: probabilities by sequence and the realisation plan, [S] each."""

    policy: FloatArray
    plan: FloatArray


class TreeWorld:
    """A zero-sum game of two seats.

    Args:
        name: name of the game.
        tree: tree of all histories.
        seats: the seat that acts in each information state, [I].
        widths: number of legal actions of each information state, [I].

    Raises:
        ConfigError: it is not a zero-sum game of two seats.
    """

    sides = 2

    def __init__(self, name: str, tree: GameTree, seats: IntArray, widths: IntArray) -> None:
        returns = tree.returns
        if returns.shape[1] != self.sides or np.abs(returns.sum(axis=1)).max() > TIE:
            raise ConfigError(
                f"Tabular self-play needs two seats whose returns sum to 0; {name!r} has "
                f"{returns.shape[1]} seats with returns like {returns[-1].tolist()}. Take "
                "kuhn_poker, leduc_poker, matrix_rps or another game that environments.md calls "
                "zero-sum."
            )
        self.name = name
        form = sequence_form(tree, seats, widths)
        self.seats: tuple[SeatForm, SeatForm] = form.seats
        self._payoffs = form.matrix(returns[:, 0])
        won = np.where(np.abs(returns[:, 0]) <= TIE, 0.5, returns[:, 0] > 0)
        self._wins = form.matrix(won)
        self._views = (self._payoffs, (-self._payoffs.T).tocsr())
        self.largest = float(np.abs(returns).max())
        square = self._payoffs.shape[0] == self._payoffs.shape[1]
        self.symmetric = square and not np.abs(self._views[0] - self._views[1]).max() > TIE

    def table_plan(self, side: int, policy: FloatArray) -> TablePlan:
        """Return a policy from its probabilities by sequence, [S]; entry 0 says nothing."""
        return TablePlan(policy, self.seats[side].plan(policy))

    def start(self, side: int, kind: Start, stream: Stream) -> TablePlan:
        """Return a side's initial policy; a random one is the softmax of standard normal logits."""
        seat = self.seats[side]
        if kind == "uniform":
            return self.table_plan(side, seat.normalised_policy(np.ones(seat.size)))
        logits = np.exp(stream.child(side).generator().normal(size=seat.size))
        if kind == "first":
            logits = np.zeros(seat.size)
            logits[seat.first] = 1.0
        if kind == "pure":
            largest = np.maximum.reduceat(logits[1:], seat.first - 1)
            logits[1:] = logits[1:] == largest[seat.owner]
        return self.table_plan(side, seat.normalised_policy(logits))

    def payoffs(self, profile: Sequence[TablePlan]) -> FloatArray:
        """Return the expected return of both sides, [2]."""
        value = float(profile[0].plan @ (self._payoffs @ profile[1].plan))
        return np.array([value, -value])

    def wins(self, profile: Sequence[TablePlan]) -> FloatArray:
        """Return the probability that each side wins, a draw counting half, [2]."""
        share = float(profile[0].plan @ (self._wins @ profile[1].plan))
        share = min(max(share, 0.0), 1.0)  # sums round
        return np.array([share, 1.0 - share])

    def respond(
        self,
        side: int,
        opponents: Opponents[TablePlan],
        oracle: Oracle,
        *,
        start: TablePlan,
        self_share: float = 0.0,
    ) -> TablePlan:
        """Return a best response, or a policy after steps of improvement; see ``World``."""
        others: FloatArray = np.sum([weight * other.plan for (other,), weight in opponents], axis=0)
        if oracle.kind == "exact":
            payoff = self._views[side] @ others
            return self.table_plan(side, self.seats[side].best_response(payoff)[0])
        learner = start
        for _ in range(oracle.steps):
            opponent_plan = (
                others if not self_share else (1 - self_share) * others + self_share * learner.plan
            )
            learner = self._improved(side, learner, opponent_plan, oracle.rate)
        return learner

    def _improved(
        self, side: int, learner: TablePlan, others: FloatArray, rate: float
    ) -> TablePlan:
        """Return a policy after one step of improvement against a realisation plan."""
        seat = self.seats[side]
        action_values, state_values = seat.values(self._views[side] @ others, learner.policy)
        reach_of_opponents = seat.reach @ others
        scale = (
            np.where(reach_of_opponents > 0, reach_of_opponents, np.inf)[seat.owner] * self.largest
        )
        policy = learner.policy.copy()
        policy[1:] *= np.exp(rate * (action_values[1:] - state_values[seat.owner]) / scale)
        policy_with_floor = np.maximum(seat.normalised_policy(policy), FLOOR)
        return self.table_plan(side, seat.normalised_policy(policy_with_floor))

    def mix(self, side: int, policies: Sequence[TablePlan], weights: FloatArray) -> TablePlan:
        """Return the behavioural equivalent of a policy that is drawn once per play.

        Where none of them comes, their mean is played, which changes no payoff.
        """
        parts = [
            (policy, weight) for policy, weight in zip(policies, weights, strict=True) if weight > 0
        ]
        if len(parts) == 1:
            return parts[0][0]
        share = np.array([weight for _, weight in parts])
        plan: FloatArray = share @ np.stack([policy.plan for policy, _ in parts])
        unreached_policy: FloatArray = share @ np.stack([policy.policy for policy, _ in parts])
        return TablePlan(self.seats[side].policy(plan, unreached_policy), plan)

    def best_value(self, side: int, other: TablePlan) -> float:
        """Return the value of a side's best response against the other side's policy."""
        payoff = self._views[side] @ other.plan
        return float(self.seats[side].values(payoff, None)[0][0])

    def gap(self, profile: Sequence[TablePlan]) -> float:
        """Return NashConv; payoffs sum to 0, so it is the sum of the best responses' values."""
        return self.best_value(0, profile[1]) + self.best_value(1, profile[0])

    def restricted(self, members: Sequence[Sequence[TablePlan]]) -> list[TablePlan]:
        """Return an equilibrium of the game in which only actions that members use are legal.

        Args:
            members: members of each side.
        """
        used = [
            np.any([member.policy > 0 for member in side_members], axis=0)
            for side_members in members
        ]
        solution = equilibrium(self.seats, self._payoffs, (used[0], used[1]))
        policies = []
        for side, plan in enumerate(solution.plans):
            seat = self.seats[side]
            unreached_policy = seat.normalised_policy(used[side].astype(np.float64))
            policies.append(
                self.table_plan(side, seat.normalised_policy(seat.policy(plan, unreached_policy)))
            )
        return policies

    def safest(self, side: int, members: Sequence[TablePlan]) -> FloatArray:
        """Return the mixture of members, [K], that loses least to a best response to it.

        The mixture is the side's part of an equilibrium of the game in which this side can only
        draw a member.

        Args:
            side: index of the side.
            members: policies of the side, K of them.
        """
        choice = one_choice(len(members))
        payoffs = csr_matrix(
            np.vstack(
                [
                    np.zeros(self.seats[1 - side].size),
                    *(m.plan @ self._views[side] for m in members),
                ]
            )
        )
        weights = equilibrium((choice, self.seats[1 - side]), payoffs).plans[0][1:]
        result: FloatArray = weights / weights.sum()
        return result


@cache
def tree_world(game: str) -> TreeWorld:
    """Return the world of a game of the catalogue, walked once.

    Args:
        game: e.g. "kuhn_poker".
    """
    states = enumerate_info_states(make_game(game))
    return TreeWorld(game, states.tree, states.seats, states.widths)

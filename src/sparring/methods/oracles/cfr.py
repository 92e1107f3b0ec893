"""Oracle: exact values at the seat's information state, under the average policy of CFR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import FloatArray, Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.environments.tree_arrays import TreeArrays, walk
from sparring.methods.oracles.base import CachedOracle, make_verdict, widen_best
from sparring.ops.game_tree import best_response, policy_values
from sparring.play.players.cfr import CfrAgent, Variant, has_at_most_histories

PolicyName = Literal["average", "best_response"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Values:
    """Action values of all information states of a game."""

    arrays: TreeArrays
    action_values: tuple[FloatArray, ...]  # [I] arrays [num_legal]
    # [I] reach probability of the other seats and chance; 0: the values are undefined
    reach: FloatArray
    nash_conv: float  # NashConv of the average policy


@dataclass(kw_only=True, eq=False)
class EquilibriumOracle(CachedOracle):
    """Base class of oracles that judge by exact values at the seat's information state.

    The first call for a game solves the game.

    Attributes:
        continuation: policy of the seat after the judged decision, "average" or "best_response" (to
            "average").
        other_seats: policy of the other seats, "average" or "best_response" (each to "average").
    """

    iterations: Annotated[int, Field(ge=1)] = 400
    variant: Variant = "cfr_plus"
    max_histories: Annotated[int, Field(ge=1)] = 500_000
    margin: Annotated[float, Field(ge=0)] = 0.0

    continuation = other_seats = "average"

    def __post_init__(self) -> None:
        super().__init__()
        self.solver = CfrAgent(
            iterations=self.iterations, variant=self.variant, max_histories=self.max_histories
        )
        self._values_of_rules: dict[str, _Values] = {}

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        if not game.has_info_states:
            return (
                "OpenSpiel gives no information states for it; use oracle minimax or mcts for "
                "games without hidden information."
            )
        if game.rules_key not in self._values_of_rules and not has_at_most_histories(
            game, self.max_histories
        ):
            return (
                f"its tree has over max_histories={self.max_histories} histories; use a "
                "smaller game, or raise max_histories."
            )
        return ""

    def key(self, state: SearchablePlay) -> str:
        """Return the seat and its information state."""
        return f"{state.seat}\n{state.node.information_state_string(state.seat)}"

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; None if the others and chance never reach the state."""
        rules = states[0].game.rules_key
        if rules not in self._values_of_rules:
            self._values_of_rules[rules] = self._values(states[0].game)
        return [self._verdict(state, self._values_of_rules[rules]) for state in states]

    def _verdict(self, state: SearchablePlay, values: _Values) -> Verdict | None:
        index = values.arrays.index_of[state.seat, state.node.information_state_string(state.seat)]
        if values.reach[index] <= 0:
            self.counts["unreached"] += 1
            return None
        action_values = values.action_values[index].tolist()
        result = make_verdict(state.legal_actions(), action_values, bound=values.nash_conv)
        return widen_best(result, self.margin)

    def _values(self, game: Searchable) -> _Values:
        arrays = walk(game)
        tree, seats = arrays.tree, arrays.seats
        cfr_policy = self.solver.policy(game)
        average_policy = []
        for state, legal in zip(arrays.examples, arrays.legal, strict=True):
            probabilities = cfr_policy.action_probabilities(state)
            row = np.array([probabilities.get(index, 0.0) for index in legal])
            average_policy.append(row / row.sum())
        returns = policy_values(tree, seats, average_policy).returns
        num_seats = game.num_seats
        responses = [best_response(tree, seats, average_policy, seat) for seat in range(num_seats)]
        response_gains = [
            policy_values(tree, seats, response).returns[seat] - returns[seat]
            for seat, response in enumerate(responses)
        ]
        best_policy = [responses[seat][index] for index, seat in enumerate(seats)]
        action_values, reach = list(average_policy), np.zeros(len(seats))
        for seat in range(num_seats):
            seat_policy, other_policy = (
                best_policy if name == "best_response" else average_policy
                for name in (self.continuation, self.other_seats)
            )
            values = policy_values(
                tree,
                seats,
                [
                    seat_policy[index] if seats[index] == seat else other_policy[index]
                    for index in range(len(seats))
                ],
            )
            for index in np.flatnonzero(seats == seat):
                action_values[index], reach[index] = values.action[index], values.other_reach[index]
        nash_conv = max(float(sum(response_gains)), 0.0)
        return _Values(
            arrays=arrays, action_values=tuple(action_values), reach=reach, nash_conv=nash_conv
        )


@dataclass(kw_only=True, eq=False)
class CfrOracle(EquilibriumOracle):
    """Value of every legal action near equilibrium, for games with hidden information.

    What: the expected return of each action at the seat's information state, when the seat and the
    others then play CFR's average policy.
    When to use: Kuhn, Leduc, liar's dice: games with a tree that is small enough to walk.
    Mathematics:
        Q(I, a) = sum over histories h in I of w(h) u(h a) / sum of w(h)
    with w(h) the probability that chance and the other seats produce h, and u(h a) the seat's
    expected return after action a in h, by enumeration.
    Pitfalls:
        - An equilibrium mixes actions of equal value. The average policy is only close to an
          equilibrium, so one of these actions is best by a tiny difference. Set a ``margin`` above
          ``bound`` to call all of them best.
        - Values are exact for this policy (certainty 1); ``bound`` is its NashConv.
        - Against a policy that is not an equilibrium other actions may earn more.
        - The oracle abstains at information states that the others' policies never reach (metric
          ``unreached``). Such states are rare against the average policy, but common against best
          responses, because best responses are pure.
        - The first call for a game solves the game (seconds for Leduc poker).
    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007;
    Tammelin, "CFR+", 2014.
    Verified by: tests/methods/oracles/test_cfr.py.

    Args:
        against: policy of the other seats. "average" (default): the average policy.
            "best_response": each other seat's best response to the average policy.
        iterations: passes of the solver over the game tree, at least 1. The default 400 is near
            equilibrium in Kuhn and Leduc poker.
        variant: the solver, "cfr" or "cfr_plus" (default).
        max_histories: the largest game tree to walk, in histories, at least 1. The oracle does not
            cover larger games.
        margin: an action is also best if its value is at most this much below the largest value, in
            the game's units, at least 0.
    """

    against: PolicyName = "average"

    name = "cfr"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.other_seats = self.against


cfr = CfrOracle

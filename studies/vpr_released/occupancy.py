"""Exact visits of states by a policy alone, and if the best of K replies is played.

Playing the best of several replies leads to states that the policy alone visits less often. For
small games of one seat, the whole tree is enumerated, without sampling.

Legend: I information states, K replies to a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.core.errors import GameError
from sparring.core.records import FloatArray, IntArray
from sparring.environments.base import Environment, Searchable, is_searchable
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import ActionScorer, InfoStates
from sparring.methods.oracles.base import Oracle, judge_states


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupancy:
    """The expected number of visits of each state in an episode.

    A state is the seat's view of a position, for any history.
    """

    visits: Mapping[str, float]  # expected visits, by view
    success: float  # probability of the largest possible return
    illegal: float  # probability that an episode ends by an illegal reply

    @property
    def decisions(self) -> float:
        """Expected number of decisions of an episode."""
        return sum(self.visits.values())

    def distance(self, other: Occupancy) -> float:
        """Return the total variation distance between the shares of all visits, in [0, 1]."""
        views = self.visits.keys() | other.visits.keys()
        return 0.5 * sum(
            abs(
                self.visits.get(view, 0.0) / self.decisions
                - other.visits.get(view, 0.0) / other.decisions
            )
            for view in views
        )


def committed(chances: FloatArray, scores: FloatArray, count: int) -> FloatArray:
    """Return the probability that each reply is played.

    Mathematics: with F(c) the probability that a reply scores at most c, and F(c-) less than c,
        P(played = a) = (F(c)^K - F(c-)^K) p(a) / p(score = c), with c the score of a
    if one of the best replies is drawn uniformly. Playing the first of the best replies gives the
    same probabilities, as replies are independent.

    Args:
        chances: probability of each reply, [A]; they sum to 1.
        scores: score of each reply, [A].
        count: K, the number of replies to a prompt.
    """
    grades, grade_of_reply = np.unique(scores, return_inverse=True)
    probability_of_grade = np.bincount(grade_of_reply, weights=chances, minlength=len(grades))
    probability_below = np.concatenate([[0.0], np.cumsum(probability_of_grade)])
    probability_played = np.diff(np.minimum(probability_below, 1.0) ** count)
    share = np.divide(
        probability_played,
        probability_of_grade,
        out=np.zeros_like(probability_of_grade),
        where=probability_of_grade > 0.0,
    )
    result: FloatArray = chances * share[grade_of_reply]
    return result


class Enumeration:
    """The tree of a game of one seat, with an oracle's score of every reply.

    Args:
        game: a game of one seat.
        info_states: from ``enumerate_info_states``.
        oracle: its values are the scores of replies; if it abstains, all scores are equal.
        illegal: score of an illegal reply; None: below all legal ones.

    Raises:
        GameError: the game has several seats.
    """

    def __init__(
        self,
        game: Environment,
        info_states: InfoStates,
        oracle: Oracle,
        illegal: float | None = None,
    ) -> None:
        if game.num_seats != 1:
            raise GameError(
                f"{game.name}: visited states are enumerated in games of one seat, and it has "
                f"{game.num_seats}; count them in stored plays instead."
            )
        self.game, self.info_states = game, info_states
        keys = [query.key for query in info_states.queries]
        assert is_searchable(game)
        states = _states(game, set(keys))
        verdict_list = judge_states(oracle, [states[key] for key in keys])
        self._scores: list[FloatArray] = []
        for query, verdict in zip(info_states.queries, verdict_list, strict=True):
            values = np.zeros(len(query.legal_actions))
            if verdict is not None:
                value_of_action = dict(zip(verdict.actions, verdict.values, strict=True))
                values = np.array([value_of_action[action] for action in query.legal_actions])
            illegal_score = float(values.min()) - 1.0 if illegal is None else illegal
            illegal_score = 0.0 if verdict is None else illegal_score
            self._scores.append(np.append(values, illegal_score))

    def visited(self, policy: ActionScorer, count: int = 1) -> Occupancy:
        """Return the visits if the best of ``count`` replies of a policy is played.

        An illegal reply that is played ends the episode.

        Args:
            policy: policy with the probability of each legal action; the rest is illegal.
            count: replies to each prompt; 1 is the policy alone.
        """
        legal, illegal = query_policy(policy, self.info_states)
        chances = [
            committed(
                np.append(legal_chances * (1.0 - illegal_share), illegal_share), scores, count
            )
            for legal_chances, illegal_share, scores in zip(
                legal, illegal, self._scores, strict=True
            )
        ]
        tree, max_utility = self.info_states.tree, self.game.max_utility
        reach = np.ones(len(tree.parent))
        for node, (parent, state, choice) in enumerate(
            zip(tree.parent, tree.info_state, tree.choice, strict=True)
        ):
            if parent >= 0:
                step = tree.chance[node] if state < 0 else chances[state][choice]
                reach[node] = reach[parent] * step
        visits, num_illegal = dict[str, float](), 0.0
        for node, state in _decisions(tree.parent, tree.info_state):
            view = self.info_states.queries[state].seen[-1].view
            visits[view] = visits.get(view, 0.0) + float(reach[node])
            num_illegal += float(reach[node] * chances[state][-1])
        is_success = np.isclose(tree.returns[:, 0], max_utility)
        return Occupancy(
            visits=visits,
            success=float(reach[tree.terminal][is_success].sum()),
            illegal=num_illegal,
        )


def _decisions(parent: IntArray, info_state: IntArray) -> list[tuple[int, int]]:
    """Return each node at which a seat acts, with its information state."""
    counts = {
        int(above): int(state)
        for above, state in zip(parent, info_state, strict=True)
        if state >= 0
    }
    return sorted(counts.items())


def _states(game: Searchable, keys: set[str]) -> dict[str, Any]:
    """Return a state for each information state, by its key."""
    states: dict[str, Any] = {}
    stack = [game.first_node()]
    while stack and len(states) < len(keys):
        node = stack.pop()
        if node.is_terminal():
            continue
        if node.is_chance_node():
            stack += [node.child(choice) for choice, chance in node.chance_outcomes() if chance > 0]
            continue
        state = game.state_of(node)
        states.setdefault(game.key(state, state.seat), state)
        stack += [node.child(choice) for choice in node.legal_actions()]
    return states

"""Which states are visited, exactly: by a policy alone, and where the best of K replies is played.

Choosing among replies leads a policy to states that it would meet less often alone. For games of
one seat that are small enough, the whole tree is enumerated and no play is drawn.

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
from sparring.methods.oracles.base import Oracle, verdicts


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupancy:
    """How often each state is visited in a play, expected.

    A state is what the seat can see of a position, however it came about.
    """

    visits: Mapping[str, float]  # by view
    success: float  # probability of the most that the game pays
    illegal: float  # probability that a play ends by an illegal reply

    @property
    def decisions(self) -> float:
        """Expected number of decisions of a play."""
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
    """Return the probability that each reply is the one that is played.

    Mathematics: with F(c) the probability that a reply scores at most c, and F(c-) less than c,
        P(played = a) = (F(c)^K - F(c-)^K) p(a) / p(score = c), with c the score of a
    where one of the best is drawn uniformly, or the first of them played, which is the same, as
    replies are drawn alike.

    Args:
        chances: [A] of each reply; they sum to 1.
        scores: [A] of each reply.
        count: K, replies to a prompt.
    """
    grades, place = np.unique(scores, return_inverse=True)
    mass = np.bincount(place, weights=chances, minlength=len(grades))
    below = np.concatenate([[0.0], np.cumsum(mass)])
    won = np.diff(np.minimum(below, 1.0) ** count)
    share = np.divide(won, mass, out=np.zeros_like(mass), where=mass > 0.0)
    result: FloatArray = chances * share[place]
    return result


class Enumeration:
    """A game of one seat with its tree, and what an oracle pays for every reply.

    Args:
        game: of one seat.
        info_states: of ``enumerate_info_states``.
        oracle: whose values are the scores of replies; where it abstains all score alike.
        illegal: score of a reply that is no legal action; None: below all legal ones.

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
        verdict_list = verdicts(oracle, [states[key] for key in keys])
        self._scores: list[FloatArray] = []
        for query, verdict in zip(info_states.queries, verdict_list, strict=True):
            values = np.zeros(len(query.legal_actions))
            if verdict is not None:
                worth = dict(zip(verdict.actions, verdict.values, strict=True))
                values = np.array([worth[action] for action in query.legal_actions])
            worst = float(values.min()) - 1.0 if illegal is None else illegal
            worst = 0.0 if verdict is None else worst
            self._scores.append(np.append(values, worst))

    def visited(self, policy: ActionScorer, count: int = 1) -> Occupancy:
        """Return what is visited where the best of so many replies of a policy is played.

        An illegal reply that is played ends the play.

        Args:
            policy: gives the probability of each legal action; the rest is illegal.
            count: replies to each prompt; 1 is the policy alone.
        """
        legal, illegal = query_policy(policy, self.info_states)
        chances = [
            committed(np.append(legal_chances * (1.0 - lost), lost), scores, count)
            for legal_chances, lost, scores in zip(legal, illegal, self._scores, strict=True)
        ]
        tree, most = self.info_states.tree, self.game.max_utility
        reach = np.ones(len(tree.parent))
        for node, (parent, state, choice) in enumerate(
            zip(tree.parent, tree.info_state, tree.choice, strict=True)
        ):
            if parent >= 0:
                step = tree.chance[node] if state < 0 else chances[state][choice]
                reach[node] = reach[parent] * step
        visits, ended = dict[str, float](), 0.0
        for node, state in _decisions(tree.parent, tree.info_state):
            view = self.info_states.queries[state].seen[-1].view
            visits[view] = visits.get(view, 0.0) + float(reach[node])
            ended += float(reach[node] * chances[state][-1])
        won = np.isclose(tree.returns[:, 0], most)
        return Occupancy(
            visits=visits, success=float(reach[tree.terminal][won].sum()), illegal=ended
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

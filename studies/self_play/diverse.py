"""Diverse PSRO: of several candidates, the one with the best sum of payoff and diversity joins.

With M the payoffs of members and a candidate against the other side's members (rows scaled to
length 1) and L = M M^T, the expected cardinality of the determinantal point process of L is

    EC = trace(I - (L + I)^-1)

and the candidate with the largest payoff / largest payoff in the table + weight * EC joins.

Reference: Perez-Nieves et al., 2021 (arXiv 2103.07927). The paper maximises this by gradient
steps; here candidates are trained against the mixture blended with random ones, and the best joins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparring.core.records import FloatArray
from sparring.league.meta_game import MetaStrategy
from studies.self_play.frame import Run, targets
from studies.self_play.worlds import Opponents, P


class Diverse(Run[P]):
    """A run of diverse PSRO.

    Options of the recipe: ``candidates``, number per round and side; ``weight`` of EC; ``mixed``,
    share of the random mixture among the opponents of all candidates except the first.
    """

    def answers(self, strategy: MetaStrategy, side: int) -> Iterator[tuple[P, Opponents[P]]]:
        """Yield the candidate with the largest sum of payoff and diversity."""
        ((_, weights),) = targets(strategy, side)
        opponents, best_score, best_policy = self.opponents(side, weights), -np.inf, None
        table = self.game().payoffs[side]
        rows = np.moveaxis(table, side, 0).reshape(len(self.members[side]), -1)
        scale = float(np.abs(table).max()) or 1.0
        for index in range(self.recipe.options["candidates"]):
            policy = self._candidate(side, weights, index)
            all_opponents = self.opponents(side, np.ones_like(weights))
            row = np.array(
                [self.payoff_against(side, policy, [opponent]) for opponent in all_opponents]
            )
            score = self.payoff_against(side, policy, opponents) / scale
            score += self.recipe.options["weight"] * cardinality(np.vstack([rows, row]))
            if score > best_score:
                best_score, best_policy = score, policy
        assert best_policy is not None
        yield best_policy, opponents

    def _candidate(self, side: int, weights: FloatArray, number: int) -> P:
        """Return a response to the mixture; except for number 0, blended with a random mixture."""
        stream = self.stream.child("candidate").child(self.round).child(side).child(number)
        if number:
            share = self.recipe.options["mixed"]
            noise = stream.generator().dirichlet(np.ones(weights.size)).reshape(weights.shape)
            weights = (1 - share) * weights + share * noise
        start = self.first_policy(side, f"{self.round} candidate {number}")
        return self.respond(side, self.opponents(side, weights), start)


def cardinality(rows: FloatArray) -> float:
    """Return the expected cardinality of the point process of these rows, scaled to length 1."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1.0)
    inner = unit @ unit.T + np.eye(len(unit))
    return float(len(unit) - np.trace(np.linalg.inv(inner)))

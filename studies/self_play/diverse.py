"""Diverse PSRO: of several answers, the one that pays and differs takes its place.

With M the payoffs of members and a candidate against the other side's members (rows scaled to
length 1) and L = M M^T, the expected cardinality of the determinantal point process of L is

    EC = trace(I - (L + I)^-1)

and the candidate with the largest payoff / largest payoff in the table + weight * EC joins.

Reference: Perez-Nieves et al., 2021 (arXiv 2103.07927). The paper takes gradient steps towards this
aim; here candidates answer the mixture mixed with random ones, and the best of them is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparring.core.records import FloatArray
from sparring.league.meta_game import MetaStrategy
from studies.self_play.frame import Run, targets
from studies.self_play.worlds import Against, P


class Diverse(Run[P]):
    """Options of the recipe: ``candidates`` per round and side, ``weight`` of EC, ``mixed``, the
    share of the random mixture that candidates but the first answer.
    """

    def answers(self, strategy: MetaStrategy, side: int) -> Iterator[tuple[P, Against[P]]]:
        """Yield the candidate that pays and differs most."""
        ((_, weights),) = targets(strategy, side)
        against, best, best_policy = self.against(side, weights), -np.inf, None
        table = self.game().payoffs[side]
        rows = np.moveaxis(table, side, 0).reshape(len(self.members[side]), -1)
        scale = float(np.abs(table).max()) or 1.0
        for index in range(self.recipe.options["candidates"]):
            policy = self._candidate(side, weights, index)
            every = self.against(side, np.ones_like(weights))
            row = np.array([self.earned(side, policy, [opponent]) for opponent in every])
            worth = self.earned(side, policy, against) / scale
            worth += self.recipe.options["weight"] * cardinality(np.vstack([rows, row]))
            if worth > best:
                best, best_policy = worth, policy
        assert best_policy is not None
        yield best_policy, against

    def _candidate(self, side: int, weights: FloatArray, number: int) -> P:
        """Return the answer to the mixture, but for the first mixed with a random one."""
        stream = self.stream.child("candidate").child(self.round).child(side).child(number)
        if number:
            share = self.recipe.options["mixed"]
            noise = stream.generator().dirichlet(np.ones(weights.size)).reshape(weights.shape)
            weights = (1 - share) * weights + share * noise
        start = self.fresh(side, f"{self.round} candidate {number}")
        return self.respond(side, self.against(side, weights), start)


def cardinality(rows: FloatArray) -> float:
    """Return the expected cardinality of the point process of these rows, scaled to length 1."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1.0)
    inner = unit @ unit.T + np.eye(len(unit))
    return float(len(unit) - np.trace(np.linalg.inv(inner)))

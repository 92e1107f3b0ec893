"""Rectified Nash: each member of the equilibrium responds to those that it beats."""

from __future__ import annotations

import numpy as np

from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of, zero_sum_payoffs
from sparring.ops.matrix_games import maximin

TWO_SIDED = True


def rectified(game: MetaGame) -> MetaStrategy:
    """Give each member of the equilibrium a row: the mixture of those it beats or ties.

    What: ``sides`` is the equilibrium of ``nash``. ``rows`` has for each member with weight the
    mixture to which its successor responds. Members without weight have rows of zeros and no
    successor.
    When to use: PSRO with rectified Nash, for diverse populations: each member amplifies its
    strengths. Both sides must share one population, and payoffs sum to 0.
    Mathematics: with the equilibrium p and payoffs U to side 0,

        row_i(j) = p(j) [U(i, j) >= 0] / sum over k of p(k) [U(i, k) >= 0]     where p(i) > 0

    A member ties with itself, so that no such row is empty. If one member has all the weight, its
    row is that member, as with ``nash``.
    Pitfalls: it may fail to converge to an equilibrium even in small games, as weaknesses are never
    exploited. The linear program gives the weight of all copies to one copy. A noisy payoff just
    below 0 removes an opponent.
    Reference: Balduzzi et al., 2019 (arXiv 1901.08106), "Open-ended learning in symmetric zero-sum
    games".
    Verified by: tests/league/meta_solvers/test_rectified.py.

    Raises:
        GameError: the meta-game is not symmetric, or its payoffs do not sum to 0.
    """
    payoffs = zero_sum_payoffs(game, "rectified")
    if not game.symmetric:
        raise GameError(
            "meta-solver 'rectified' is for one population that plays both sides; use "
            "MetaGame(symmetric=True), or take nash."
        )
    equilibrium = strategy_of(game, (maximin(payoffs)[0],) * 2)
    weights = equilibrium.sides[0]
    scores = weights * (payoffs >= 0) * (weights > 0)[:, None]
    sums = scores.sum(axis=1, keepdims=True)
    rows = np.divide(scores, sums, out=np.zeros_like(scores), where=sums > 0)
    return MetaStrategy(sides=equilibrium.sides, rows=(rows, rows))

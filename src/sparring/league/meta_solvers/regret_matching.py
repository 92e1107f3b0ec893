"""Regret matching, averaged over steps."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of
from sparring.ops.normal_form import choice_payoffs, in_range, shares_above_zero


def regret_matching(game: MetaGame, *, steps: Annotated[int, Field(ge=1)] = 10_000) -> MetaStrategy:
    """Average regret matching between the sides over its steps.

    What: each side begins uniform, and all move at once. A member's regret is the sum over steps of
    its payoff minus the payoff of its side.
    When to use: any number of sides and any payoffs: for two opposed sides it converges to an
    equilibrium, for others the joint play converges to the coarse correlated equilibria.
    Mathematics: with u_s(i) the payoff of member i of side s while the others play sigma,

        R_s(i) <- R_s(i) + u_s(i) - sum_k sigma_s(k) u_s(k)
        sigma_s(i) = max(R_s(i), 0) / sum_k max(R_s(k), 0)

    and uniform if no regret is above 0. The result is the mean of sigma over all steps, the first
    one included. With m members and payoffs of range D, the regret per step is at most

        D sqrt(m / steps)

    Pitfalls: convergence is slow, so that every member keeps some weight. With more sides, or
    payoffs whose sum is not constant, the means of the sides need not be an equilibrium.
    Reference: Hart and Mas-Colell, 2000, "A simple adaptive procedure leading to correlated
    equilibrium"; OpenSpiel's version also has a smallest weight of 1e-6.
    Verified by: tests/league/meta_solvers/test_regret_matching.py.

    Args:
        steps: number of updates, at least 1. Default 10000.
    """
    tables, _, _ = in_range(game.payoffs)
    sides = [np.full(size, 1.0 / size) for size in game.shape]
    regrets = [np.zeros(size) for size in game.shape]
    sums = list(sides)
    for _ in range(steps):
        for s, values in enumerate(
            [choice_payoffs(table, sides, s) for s, table in enumerate(tables)]
        ):
            regrets[s] += values - values @ sides[s]
        sides = [shares_above_zero(regret) for regret in regrets]
        if game.symmetric:
            regrets[1], sides[1] = regrets[0].copy(), sides[0]
        sums = [total + side for total, side in zip(sums, sides, strict=True)]
    return strategy_of(game, sums)

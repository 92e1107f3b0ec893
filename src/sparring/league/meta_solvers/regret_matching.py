"""Regret matching, averaged over its steps."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, answer
from sparring.ops.normal_form import choice_payoffs, in_range, shares_above_zero


def regret_matching(game: MetaGame, *, steps: Annotated[int, Field(ge=1)] = 10_000) -> MetaStrategy:
    """Let each side play its members by what it regrets, and answer with the mean over all steps.

    What: each side begins uniform, and all move at once. A member's regret is the sum over steps
    of what it would have earned more than its side did.
    When to use: any number of sides and any payoffs, where no linear program is at hand: for two
    opposed sides it comes near an equilibrium, for others the sides' play together comes near the
    coarse correlated equilibria.
    Mathematics: with u_s(i) what member i of side s earns while the others play sigma,

        R_s(i) <- R_s(i) + u_s(i) - sum_k sigma_s(k) u_s(k)
        sigma_s(i) = max(R_s(i), 0) / sum_k max(R_s(k), 0)

    and uniform where no regret is above 0. The answer is the mean of sigma, the uniform beginning
    included. The regret per step is at most, with m members and payoffs of range D,

        D sqrt(m / steps)

    Pitfalls: it comes near slowly, so that every member keeps some weight. With more sides, or
    payoffs of no constant sum, the means of the sides by themselves need not be an equilibrium.
    Reference: Hart and Mas-Colell, 2000, "A simple adaptive procedure leading to correlated
    equilibrium"; OpenSpiel's has a smallest weight of 1e-6 besides.
    Verified by: tests/league/meta_solvers/test_regret_matching.py.

    Args:
        steps: how often regrets are added, at least 1. Default 10000.
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
    return answer(game, sums)

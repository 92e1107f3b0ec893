"""Replicator dynamics with a smallest weight per member."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of
from sparring.ops.normal_form import choice_payoffs, in_range, project_onto_simplex

PRESETS = {"openspiel": {"gamma": 1e-6, "dt": 1e-3, "steps": 100_000, "averaged": 1.0}}


def projected_replicator(
    game: MetaGame,
    *,
    gamma: Annotated[float, Field(ge=0, lt=1)] = 1e-6,
    dt: Annotated[float, Field(gt=0)] = 0.01,
    steps: Annotated[int, Field(ge=1)] = 10_000,
    averaged: Annotated[float, Field(gt=0, le=1)] = 1.0,
) -> MetaStrategy:
    """Average projected replicator dynamics over time.

    What: each side begins uniform. At every step a member's weight grows with its payoff less the
    mean payoff of its side; then the weights are projected so that each is at least gamma.
    When to use: PSRO with a small or noisy table, whose exact equilibrium would overfit, and
    wherever every member must keep some weight. Any number of sides, any payoffs.
    Mathematics: with u_s(i) the payoff of member i of side s while the others play sigma, and P the
    projection onto the distributions that are at least gamma,

        sigma_s(i) <- P[ sigma_s(i) + dt sigma_s(i) (u_s(i) - sum_k sigma_s(k) u_s(k)) ]

    The result is the mean of sigma over the last share ``averaged`` of the steps. Payoffs are first
    shifted and scaled into [-1, 1], by half of the largest range of a side, so that dt and steps do
    not depend on units.
    Pitfalls: with a small time steps * dt the result stays near uniform. Only the mean converges to
    an equilibrium, and only where payoffs sum to a constant. Two copies of a member together
    have twice its weight. A gamma above 1 / members is refused.
    Reference: Lanctot et al., 2017 (arXiv 1711.00832), appendix; preset ``openspiel`` has
    OpenSpiel's numbers, and gives its result if the largest range of payoffs is 2.
    Verified by: tests/league/meta_solvers/test_projected_replicator.py.

    Args:
        gamma: the smallest weight of a member, in [0, 1). Default 1e-6.
        dt: size of a step, above 0. Default 0.01.
        steps: number of steps, at least 1. Default 10000.
        averaged: share of the last steps whose mean is the result, in (0, 1]. Default 1: all steps.

    Raises:
        ConfigError: gamma times a side's members is above 1.
    """
    if gamma * max(game.shape) > 1.0:
        raise ConfigError(
            f"meta-solver 'projected_replicator': gamma={gamma:g} is too large for "
            f"{max(game.shape)} members; write at most {1.0 / max(game.shape):g}."
        )
    tables, _, _ = in_range(game.payoffs)
    first_averaged_step = steps + 1 - max(1, round(averaged * (steps + 1)))
    sides = [np.full(size, 1.0 / size) for size in game.shape]
    sums = [np.zeros(size) for size in game.shape]
    for step in range(steps + 1):
        if step >= first_averaged_step:
            sums = [total + side for total, side in zip(sums, sides, strict=True)]
        values = [choice_payoffs(table, sides, s) for s, table in enumerate(tables)]
        updated_sides = [x + dt * x * (u - x @ u) for x, u in zip(sides, values, strict=True)]
        sides = [project_onto_simplex(x, gamma) for x in updated_sides]
        if game.symmetric:
            sides[1] = sides[0]
    return strategy_of(game, sums)

"""alpha-Rank: the stationary distribution of evolution with rare mutants."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.errors import GameError
from sparring.core.records import FloatArray
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of
from sparring.ops.normal_form import stationary

MAX_STATES = 600  # the cost grows with the third power
LOG_RARE = np.log(1e-12)  # probability that a worse mutant takes over, with unlimited alpha
PRESETS = {"limit": {"alpha": None}}


def alpha_rank(
    game: MetaGame,
    *,
    alpha: Annotated[float | None, Field(gt=0, le=1e6)] = 100.0,
    population: Annotated[int, Field(ge=2)] = 50,
) -> MetaStrategy:
    """Give members the stationary distribution of an evolving population with rare mutants.

    What: all individuals of a population play one member, the resident. A rare mutant plays another
    member, and either dies out or takes over; the larger its payoff, the likelier it takes over.
    The result is the share of time of each member (in a symmetric game), or of each combination of
    members (``joint``).
    When to use: any number of sides and any payoffs, for alpha-PSRO and for rankings in games with
    cycles. The result exists and is unique.
    Mathematics: with d the mutant's payoff less the resident's, it takes over with probability

        rho(d) = (1 - exp(-alpha d)) / (1 - exp(-population alpha d))     rho(0) = 1 / population

    In a symmetric game d = U(mutant, resident) - U(resident, mutant), and all other members are
    equally likely mutants. Otherwise a state is one member per side, a mutant changes one of them,
    and d is the gain of that side. The result is the stationary distribution of these changes. With
    alpha null, rho is 1 for d > 0, and 1e-12 in place of 0 for d < 0. All mass is then in sets of
    states that no improving change leaves.
    Pitfalls: alpha is relative to the payoffs, so scaled payoffs give another ranking. The result
    is not an equilibrium: a member with mass may be easy to beat. Each copy of a member gets mass
    of its own. At most 600 states; an asymmetric game has one for each combination of members.
    Reference: Omidshafiei et al., 2019 (arXiv 1903.01373); Muller et al., 2020 (arXiv 1909.12823),
    alpha-PSRO. alpha 100 and population 50 are OpenSpiel's numbers. In its limit a mutant of
    equal payoff takes over with probability 1/2; here with 1 / population.
    Verified by: tests/league/meta_solvers/test_alpha_rank.py.

    Args:
        alpha: strength of selection, above 0; null is the limit of large alpha. Default 100.
        population: size of the population, at least 2. Default 50.

    Raises:
        GameError: there are more than 600 states.
    """
    num_states = game.shape[0] if game.symmetric else int(np.prod(game.shape))
    if num_states > MAX_STATES:
        raise GameError(
            f"meta-solver 'alpha_rank': {num_states} combinations of members are more than "
            f"{MAX_STATES}; keep fewer members, or take regret_matching."
        )
    if game.symmetric:
        payoffs = game.payoffs[0]
        gains = payoffs.T - payoffs
        shares = stationary(_log_fixation(gains, alpha, population))
        return strategy_of(game, (shares, shares))
    shares = stationary(_log_rates(game, alpha, population)).reshape(game.shape)
    sides = range(game.num_sides)
    other_axes = [tuple(other for other in sides if other != side) for side in sides]
    return MetaStrategy(sides=tuple(shares.sum(axis=axes) for axes in other_axes), joint=shares)


def _log_rates(game: MetaGame, alpha: float | None, population: int) -> FloatArray:
    """Return the logarithms of the rates between combinations of members, [states, states]."""
    num_states = int(np.prod(game.shape))
    numbers = np.arange(num_states).reshape(game.shape)
    rates = np.full((num_states, num_states), -np.inf)
    for side, payoffs in enumerate(game.payoffs):
        lines = np.moveaxis(numbers, side, -1).reshape(-1, game.shape[side])
        line_payoffs = np.moveaxis(payoffs, side, -1).reshape(-1, game.shape[side])
        gains = line_payoffs[:, None, :] - line_payoffs[:, :, None]
        rates[lines[:, :, None], lines[:, None, :]] = _log_fixation(gains, alpha, population)
    return rates


def _log_fixation(gains: FloatArray, alpha: float | None, population: int) -> FloatArray:
    """Return the logarithm of a mutant's fixation probability, by its gain in payoff."""
    if alpha is None:
        log_neutral = -np.log(population)
        return np.where(gains > 0, 0.0, np.where(gains < 0, LOG_RARE, log_neutral))
    size = np.minimum(np.abs(alpha * gains), 1e200)
    nonzero_size = np.maximum(size, 1e-300)
    log_ratio = np.log(-np.expm1(-nonzero_size)) - np.log(-np.expm1(-population * nonzero_size))
    logs: FloatArray = log_ratio - np.where(gains < 0, (population - 1) * size, 0.0)
    return logs

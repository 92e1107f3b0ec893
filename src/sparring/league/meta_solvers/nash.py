"""A Nash equilibrium of two opposed sides, by a linear program."""

from __future__ import annotations

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of, zero_sum_payoffs
from sparring.ops.matrix_games import maximin

TWO_SIDED = True


def nash(game: MetaGame) -> MetaStrategy:
    """Give each side an optimal strategy of the zero-sum meta-game: a Nash equilibrium.

    What: against a side's mixture no member of the other side earns more than the game's value. A
    linear program is solved for each side separately.
    When to use: double oracle and PSRO-Nash on two sides whose payoffs sum to a constant, and as
    the answer of a finished population.
    Mathematics: with U the payoffs to side 0, and -U those to side 1,

        max over sigma_0, v of v   so that   sum_i sigma_0(i) U(i, j) >= v for every j

    Side 1 solves the same problem for -U transposed. Payoffs are first shifted and scaled into
    [-1, 1], which changes no equilibrium. If all payoffs are equal the result is uniform.
    Pitfalls: among several equilibria the choice is arbitrary: of two equal members one may have
    all the weight and the other none, and noise in the payoffs moves the support.
    ``max_entropy_nash`` has one result, and ``projected_replicator`` moves less. If the payoffs are
    means of few episodes, weak members can have weight.
    Reference: von Neumann, 1928; McMahan, Gordon and Blum, 2003 (double oracle); Lanctot et al.,
    2017 (arXiv 1711.00832), PSRO.
    Verified by: tests/league/meta_solvers/test_nash.py.

    Raises:
        GameError: there are more than two sides, or payoffs do not sum to a constant.
    """
    payoffs = zero_sum_payoffs(game, "nash")
    first = maximin(payoffs)[0]
    return strategy_of(game, (first, first if game.symmetric else maximin(-payoffs.T)[0]))

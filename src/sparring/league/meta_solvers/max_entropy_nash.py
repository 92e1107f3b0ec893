"""The equilibrium of two opposed sides with the largest entropy."""

from __future__ import annotations

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of, zero_sum_payoffs
from sparring.ops.matrix_games import max_entropy_strategy

TWO_SIDED = True


def max_entropy_nash(game: MetaGame) -> MetaStrategy:
    """Give each side the optimal strategy of largest entropy of the zero-sum meta-game.

    What: of all Nash equilibria the one with the largest entropy, which is unique.
    When to use: as ``nash``, where the result must not depend on the order of the members, or on
    the choice of a linear program among equilibria: copies of a member share its weight.
    Mathematics: with v the value of the payoffs U to side 0,

        max over sigma of - sum_i sigma(i) log sigma(i)
        so that sum_i sigma(i) U(i, j) >= v for every j

    Side 1 solves the same problem for -U transposed. Linear programs find the members with
    weight in any equilibrium. Newton's method on the multipliers of j finds the weights. A unique
    equilibrium equals that of ``nash``; if all payoffs are equal, the result is ``uniform``.
    Pitfalls: it solves one more linear program per member, so it is slower than ``nash``. The
    result is not robust: a small change of a payoff may still move the support.
    Payoffs that differ by less than 1e-8 of their range may count as equal.
    Reference: Balduzzi et al., 2018 (arXiv 1806.02643, Nash averaging); Liu et al., 2022 (arXiv
    2202.07415, NeuPL).
    Verified by: tests/league/meta_solvers/test_max_entropy_nash.py.

    Raises:
        GameError: there are more than two sides, or payoffs do not sum to a constant.
    """
    payoffs = zero_sum_payoffs(game, "max_entropy_nash")
    first = max_entropy_strategy(payoffs)
    return strategy_of(game, (first, first if game.symmetric else max_entropy_strategy(-payoffs.T)))

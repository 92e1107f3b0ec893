"""Prioritised fictitious self-play: more weight on members that beat the newest one."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.errors import GameError
from sparring.core.records import FloatArray
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, check_two_sides
from sparring.league.payoffs import WEIGHTINGS, opponent_weights

TWO_SIDED = True


def pfsp(
    game: MetaGame,
    *,
    weighting: Literal["squared", "linear", "linear_capped", "variance"] = "squared",
) -> MetaStrategy:
    """Give members weights by the win rate of the other side's newest member against them.

    What: the newest member represents the learner. Each member of the other side has a weight f(p)
    of the newest one's win rate p against it, as in the matchmaker of the same name.
    When to use: prioritised fictitious self-play on a population whose old members are too weak:
    "squared" prefers members that still win, "variance" members of about equal strength.
    Mathematics: with p_j the newest member's win rate against member j,

        sigma(j) = f(p_j) / sum over i of f(p_i)
        f(p) = (1 - p)^2         "squared"
        f(p) = 1 - p             "linear"
        f(p) = min(1/2, 1 - p)   "linear_capped"
        f(p) = p (1 - p)         "variance"

    If all weights are 0 they are uniform. Rates are ``MetaGame.win_rates``; if it is None, they
    follow from the payoffs u to side 0, if all are in [-1, 1] and side 1 has -u:

        p = (1 + u) / 2

    Pitfalls: p is the win rate of the newest member, not of its opponent; the opponent's rate would
    prefer easy opponents. In a symmetric game the newest member also meets itself, with p = 1/2.
    With rates of few episodes, a member that lost by chance gets no weight again.
    Reference: Vinyals et al., 2019 (AlphaStar, Nature 575), "Prioritized fictitious self-play" and
    its pseudo-code.
    Verified by: tests/league/meta_solvers/test_pfsp.py.

    Args:
        weighting: the function f above. Default "squared".

    Raises:
        GameError: there are more than two sides, or win rates are unknown.
    """
    check_two_sides(game, "pfsp")
    win_rates = _win_rates(game)
    second = _weights(win_rates[-1], weighting)
    first = second if game.symmetric else _weights(1 - win_rates[:, -1], weighting)
    return MetaStrategy(sides=(first, second))


def _win_rates(game: MetaGame) -> FloatArray:
    """Return the win rates of side 0, [m_0, m_1]."""
    if game.win_rates is not None:
        return game.win_rates
    first, second = game.payoffs
    largest_payoff = float(np.abs(first).max())
    if largest_payoff > 1 or not np.array_equal(first, -second):
        raise GameError(
            f"meta-solver 'pfsp' needs win rates, and payoffs of up to {largest_payoff:g} are not "
            "in [-1, 1], or do not sum to 0. Give MetaGame(win_rates=...), or such payoffs."
        )
    return (1 + first) / 2


def _weights(rates: FloatArray, weighting: str) -> FloatArray:
    unnormalised: FloatArray = np.array(opponent_weights(rates.tolist(), *WEIGHTINGS[weighting]))
    return np.asarray(unnormalised / unnormalised.sum())

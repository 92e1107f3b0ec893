"""All weight on the newest member."""

from __future__ import annotations

import numpy as np

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy

READS_PAYOFFS = False


def last(game: MetaGame) -> MetaStrategy:
    """Give each side's newest member all the weight.

    What: the payoffs are not used.
    When to use: vanilla self-play and iterated best response, as a baseline.
    Mathematics: with m_s members of side s, oldest first,

        sigma_s(i) = 1 if i = m_s, else 0

    Pitfalls: in a game with cycles (rock, paper, scissors) each new member beats the last one and
    loses to the one before, without convergence.
    Reference: self-play as in Tesauro, 1995 (TD-Gammon); the survey arXiv 2408.01072, vanilla
    self-play.
    Verified by: tests/league/meta_solvers/test_last.py.
    """
    return MetaStrategy(sides=tuple(np.eye(size)[-1] for size in game.shape))

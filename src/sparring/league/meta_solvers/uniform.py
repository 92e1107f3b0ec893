"""Uniform weights on all members."""

from __future__ import annotations

import numpy as np

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy

READS_PAYOFFS = False


def uniform(game: MetaGame) -> MetaStrategy:
    """Give every member of a side the same weight.

    What: the payoffs are not used.
    When to use: fictitious play, and PSRO-uniform, which is the same: each new member responds to
    all earlier ones equally. Also the simplest baseline.
    Mathematics: with m_s members of side s, each of them has

        sigma_s(i) = 1 / m_s

    Pitfalls: weak early members always keep their share, and a copy of a member doubles its share.
    As the result of a run the mixture improves slowly, at worst as one over the root of the rounds.
    Reference: Brown, 1951, "Iterative solution of games by fictitious play"; Lanctot et al., 2017
    (arXiv 1711.00832), PSRO with a uniform meta-strategy.
    Verified by: tests/league/meta_solvers/test_uniform.py.
    """
    return MetaStrategy(sides=tuple(np.full(size, 1.0 / size) for size in game.shape))

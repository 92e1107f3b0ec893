"""Uniform weights on the newest share of the members."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import FloatArray
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy

READS_PAYOFFS = False


def delta_uniform(
    game: MetaGame, *, delta: Annotated[float, Field(ge=0, le=1)] = 0.5
) -> MetaStrategy:
    """Give the newest share of each side's members the same weight, and older ones none.

    What: the payoffs are not used.
    When to use: for opponents of about the learner's strength, without the cycles that responding
    only to the last member causes.
    Mathematics: with m_s members of side s, numbered from 0, oldest first,

        first = min(floor(delta m_s), m_s - 1)
        sigma_s(i) = 1 / (m_s - first) if i >= first, else 0

    delta 0 is ``uniform``, and delta 1 is ``last``.
    Pitfalls: delta counts members, not steps. Older members, which are left out, may beat the
    newest ones.
    Reference: Bansal et al., 2018 (arXiv 1710.03748), with uniform opponents from the newest share
    of the history.
    Verified by: tests/league/meta_solvers/test_delta_uniform.py.

    Args:
        delta: share of the history that is left out, in [0, 1]. Default 0.5.
    """
    return MetaStrategy(sides=tuple(_weigh_newest(size, delta) for size in game.shape))


def _weigh_newest(size: int, delta: float) -> FloatArray:
    first = min(math.floor(delta * size + 1e-9), size - 1)  # 0.29 * 100 is 28.999...
    weights = np.zeros(size)
    weights[first:] = 1.0 / (size - first)
    return weights

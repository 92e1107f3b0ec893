"""Correlated equilibria of largest Gini impurity, for any number of sides."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, distribution
from sparring.ops.matrix_games import max_gini_equilibrium

MAX_CELLS = 400  # the least-squares problem has an unknown per cell and deviation


def correlated(game: MetaGame, *, kind: Literal["ce", "cce"] = "cce") -> MetaStrategy:
    """Give combinations of members the correlated equilibrium of largest Gini impurity.

    What: ``joint`` is a distribution over combinations of the sides' members from which no side
    gains by deviating; ``sides`` are its marginals. The result is unique.
    When to use: JPSRO, on any number of sides and any payoffs. With "cce" a new member of
    each side responds to the others' marginal. With "ce" a new member responds to each recommended
    member, given the distribution of the others at this recommendation.
    Mathematics: over distributions p of the cells c = (c_1, ..., c_n)

        min over p of sum_c p(c)^2   so that for every side s and members i, j

        sum over c with c_s = i of p(c) (u_s(j, c_-s) - u_s(c)) <= 0     "ce"
        sum over c              of p(c) (u_s(j, c_-s) - u_s(c)) <= 0     "cce"

    The problem is solved exactly, as a projection onto a cone by non-negative least squares.
    Pitfalls: the marginals are an equilibrium only for two sides whose payoffs sum to a constant:
    use ``joint``. Copies of a member together have more weight than one. At most 400 combinations
    of members; close to that it is slow.
    Reference: Marris et al., 2021 (arXiv 2106.09435), JPSRO with maximum-Gini (coarse) correlated
    equilibria; Aumann, 1974; Moulin and Vial, 1978.
    Verified by: tests/league/meta_solvers/test_correlated.py.

    Args:
        kind: "ce": no side gains by deviating when it knows its recommended member. "cce"
            (default): no side gains by deviating before it knows it.

    Raises:
        GameError: there are more than 400 combinations.
    """
    num_cells = int(np.prod(game.shape))
    if num_cells > MAX_CELLS:
        raise GameError(
            f"meta-solver 'correlated': {num_cells} combinations of members are more than "
            f"{MAX_CELLS}; keep fewer members, or take regret_matching."
        )
    joint = max_gini_equilibrium(game.payoffs, recommended=kind == "ce")
    if game.symmetric:
        joint = (joint + joint.T) / 2
        first = distribution(joint.sum(axis=1))
        return MetaStrategy(sides=(first, first), joint=joint)
    sides = range(game.num_sides)
    other_axes = [tuple(other for other in sides if other != side) for side in sides]
    return MetaStrategy(sides=tuple(joint.sum(axis=axes) for axes in other_axes), joint=joint)

"""Which pairs of members play more, so that plays say most about the meta-strategy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sparring.config.plugins.registry import Bound
from sparring.core.records import FloatArray
from sparring.core.refs import PlayerRef
from sparring.league.meta_payoffs import member_payoffs
from sparring.league.payoffs import Payoffs


def pair_shares(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    *,
    solver: Bound,
    focus: float,
) -> list[float]:
    """Return the share of all plays that each pair of members is to have.

    With sigma the meta-strategy by the book so far, and s_ij the standard deviation of the returns
    of members i and j,

        share_ij = (1 - focus) / pairs + focus w_ij / sum over pairs of w
        w_ij = s_ij sqrt(sigma_i^2 + sigma_j^2)

    What member j earns against sigma is sum over i of sigma_i R[j, i]. With n_ij plays of each pair
    its variance is sum over i of sigma_i^2 s_ij^2 / n_ij, and plays in proportion to w make the sum
    of these over all j as small as it can be. A pair whose deviation is not known has the largest
    one of the others.

    Args:
        book: how plays have ended.
        members: of the league, at least two.
        environment: its label.
        solver: gives the meta-strategy.
        focus: in [0, 1]; at 0 all shares are equal.

    Returns:
        The shares, in the order of ``itertools.combinations(members, 2)``.

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: it raised, or gave no distributions.
    """
    sigma: FloatArray = solver(member_payoffs(book, members, {environment: 1.0})).sides[0]
    pairs = list(itertools.combinations(members, 2))
    found = [book.results(*pair, environment=environment).deviation for pair in pairs]
    largest = max((one for one in found if one is not None), default=1.0)
    spread = np.array([largest if one is None else one for one in found])
    mass = np.array([np.hypot(*own) for own in itertools.combinations(sigma.tolist(), 2)])
    weights = spread * mass
    total = float(weights.sum())
    own = weights / total if total > 0 else np.full(len(pairs), 1 / len(pairs))
    shares: list[float] = ((1 - focus) / len(pairs) + focus * own).tolist()
    return shares

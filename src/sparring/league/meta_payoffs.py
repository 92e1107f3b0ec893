"""The meta-game of a league: what its members earn against each other, by the payoff book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sparring.league.meta_game import MetaGame
from sparring.league.payoffs import Payoffs
from sparring.refs import PlayerRef


def member_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environments: Mapping[str, float],
    others: Sequence[PlayerRef] = (),
) -> MetaGame:
    """Return the symmetric meta-game of members who may sit in any side.

    With R[i, j] the mean over sides s of i's mean return from side s against j,

        payoffs[i, j] = (R[i, j] - R[j, i]) / 2

    so that the sides' payoffs sum to 0. In a zero-sum environment this is R. Two members that have
    not met, and a member with itself, have 0.

    Args:
        book: the payoff book.
        members: snapshots, oldest first.
        environments: weight of each, by its label. Of several the payoffs are their weighted mean.
        others: the members of the first side, where the two sides are not the same ones: then the
            game is not symmetric, and ``members`` are the second side's.
    """
    everyone = list(dict.fromkeys((*others, *members)))
    place = {member: number for number, member in enumerate(everyone)}
    size, total = (len(everyone), len(everyone)), sum(environments.values())
    payoffs, counts, points, decided = (np.zeros(size) for _ in range(4))
    for environment, weight in environments.items():
        returns, sides = np.zeros(size), np.zeros(size)
        for row, found in book.rows.items():
            if row.environment != environment or not found.games or row.player == row.opponent:
                continue
            if row.player not in place or row.opponent not in place:
                continue
            cell = place[row.player], place[row.opponent]
            returns[cell] += found.mean_return
            sides[cell] += 1
            counts[cell] += found.games
            points[cell] += found.wins + found.draws / 2
            decided[cell] += found.wins + found.draws + found.losses
        mean = returns / np.maximum(sides, 1)
        payoffs += weight / total * (mean - mean.T) / 2
    wins = np.where(decided > 0, points / np.where(decided > 0, decided, 1.0), 0.5)
    if not others:
        return MetaGame(payoffs=(payoffs, payoffs.T), symmetric=True, counts=counts, wins=wins)
    part = np.ix_([place[one] for one in others], [place[one] for one in members])
    own = payoffs[part]
    return MetaGame(payoffs=(own, -own), counts=counts[part], wins=wins[part])

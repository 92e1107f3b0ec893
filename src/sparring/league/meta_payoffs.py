"""The meta-game of a league: what its members earn against each other, by the payoff book."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparring.config.plugins.registry import Bound
from sparring.core.errors import ConfigError
from sparring.core.refs import PlayerRef
from sparring.environments.base import Environment, filled_together, sides_of, teams_of
from sparring.league.meta_game import MetaGame
from sparring.league.payoffs import Payoffs


class TwoSides(NamedTuple):
    """An environment of two sides: its weight, and the first seat of each side."""

    weight: float
    seats: tuple[int, int]


def two_sides(environment: Environment, weight: float) -> TwoSides:
    """Return the sides of an environment that has two (``run.payoff_plays``)."""
    first, second = filled_together(tuple(teams_of(environment)))
    return TwoSides(weight, (first[0], second[0]))


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
    not met, and a member with itself, have 0. Where there are three teams or more, i plays against
    j in all the others.

    Args:
        book: the payoff book.
        members: snapshots, oldest first.
        environments: weight of each, by its label. Of several the payoffs are their weighted mean.
        others: the members of the first side, where the two sides are not the same ones: then the
            game is not symmetric, and ``members`` are the second side's.

    Returns:
        The meta-game. Exact results count as infinitely many plays; where all pairs of members have
        them, there are no ``counts``.
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
            counts[cell] += math.inf if found.exact else found.games
            points[cell] += found.wins + found.draws / 2
            decided[cell] += found.wins + found.draws + found.losses
        mean = returns / np.maximum(sides, 1)
        payoffs += weight / total * (mean - mean.T) / 2
    wins = np.where(decided > 0, points / np.where(decided > 0, decided, 1.0), 0.5)
    pairs = ~np.eye(len(everyone), dtype=bool)
    exact = bool(pairs.any() and np.isinf(counts[pairs]).all())
    if not others:
        known = None if exact else counts
        return MetaGame(payoffs=(payoffs, payoffs.T), symmetric=True, counts=known, wins=wins)
    part = np.ix_([place[one] for one in others], [place[one] for one in members])
    own, known = payoffs[part], None if exact else counts[part]
    return MetaGame(payoffs=(own, -own), counts=known, wins=wins[part])


def side_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    seats: tuple[int, int],
    *,
    opposed: bool,
) -> MetaGame:
    """Return the meta-game in which each of two sides has a population of its own.

    With R_s[i, j] the mean return of side s in plays of i in the first side against j in the second

        payoffs_0 = R_0,  payoffs_1 = R_1

    and where the sides are opposed, so that they sum to 0,

        payoffs_0 = (R_0 - R_1) / 2 = -payoffs_1

    Members that have not met in these sides have 0. A member may meet itself.

    Args:
        book: the payoff book.
        members: snapshots, oldest first: in each side those of the side's role.
        environment: its label.
        seats: the first seat of each side.
        opposed: whether one side wins what the other loses.
    """
    place, size = {one: number for number, one in enumerate(members)}, (len(members),) * 2
    first, second, counts, wins = np.zeros(size), np.zeros(size), np.zeros(size), np.full(size, 0.5)
    for row, found in book.rows.items():
        here = row.environment == environment and row.player in place and row.opponent in place
        if not here or not found.games:
            continue
        if row.seat == seats[0]:
            cell = place[row.player], place[row.opponent]
            first[cell] = found.mean_return
            counts[cell] = math.inf if found.exact else found.games
            wins[cell] = found.win_rate()
        elif row.seat == seats[1]:
            second[place[row.opponent], place[row.player]] = found.mean_return
    if opposed:
        first = (first - second) / 2
        second = -first
    known = None if np.isinf(counts).all() else counts
    return MetaGame(payoffs=(first, second), counts=known, wins=wins)


def answer_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environments: Mapping[str, TwoSides],
    *,
    opposed: bool,
) -> MetaGame:
    """Return the meta-game of two sides in all environments: the weighted mean of ``side_payoffs``.

    Args:
        book: the payoff book.
        members: as for ``side_payoffs``.
        environments: by their labels.
        opposed: as for ``side_payoffs``.

    Returns:
        The meta-game. A pair's plays are those of all environments; a rate of wins is the mean.
    """
    total = sum(own.weight for own in environments.values())
    games = [
        (side_payoffs(book, members, label, own.seats, opposed=opposed), own.weight / total)
        for label, own in environments.items()
    ]
    if len(games) == 1:
        return games[0][0]
    payoffs = [np.sum([w * game.payoffs[side] for game, w in games], axis=0) for side in (0, 1)]
    exact = all(game.counts is None for game, _ in games)
    counts = [
        np.full(game.shape, np.inf) if game.counts is None else game.counts for game, _ in games
    ]
    wins = np.sum([w * np.asarray(game.wins) for game, w in games], axis=0)
    known = None if exact else np.sum(counts, axis=0)
    return MetaGame(payoffs=(payoffs[0], payoffs[1]), counts=known, wins=wins)


def unmet_note(solver: Bound, game: MetaGame) -> str:
    """Return how many pairs of members have never met, for a reader of what a solver gives; or "".

    A solver that looks at no payoffs (``READS_PAYOFFS = False`` in its module) misses none.

    Where the sides have populations of their own, a pair is a member of the first side and one of
    the second.

    Args:
        solver: the meta-solver.
        game: of ``member_payoffs`` or ``answer_payoffs``.
    """
    if game.counts is None or not getattr(solver.plugin.module, "READS_PAYOFFS", True):
        return ""
    met = game.counts.ravel() > 0
    if game.symmetric:
        met = (game.counts + game.counts.T)[np.triu_indices(len(game.counts), 1)] > 0
    missing = int((~met).sum())
    if not missing:
        return ""
    return (
        f"{missing} of {len(met)} pairs of members have never met, and {solver.plugin.name} takes "
        "their payoffs as 0; train with league.plays=500, say, or league.plays=exact."
    )


def takes_opposed(solver: Bound) -> bool:
    """Return whether a solver takes what two sides earn as opposed: ``TWO_SIDED`` in its module."""
    return bool(getattr(solver.plugin.module, "TWO_SIDED", False))


def check_sides(solver: Bound, environments: Iterable[Any], where: str) -> None:
    """Refuse a solver of two sides (``TWO_SIDED = True`` in its module) where there are more teams.

    Args:
        solver: the meta-solver.
        environments: that are trained on.
        where: the key that names the solver.

    Raises:
        ConfigError: one of them has more than two teams.
    """
    if not takes_opposed(solver):
        return
    for environment in environments:
        teams = len(sides_of(tuple(teams_of(environment))))
        if teams > 2:
            raise ConfigError(
                f"{where}: the meta-solver {solver.plugin.name!r} is for two teams, and "
                f"{environment.name!r} has {teams}; write alpha_rank, projected_replicator or "
                "uniform."
            )

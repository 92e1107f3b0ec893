"""The meta-game of a league, by the payoff book, and the meta-solvers that a run names.

A meta-game has a population of members for each side (a role or a team), and each member is one
choice of its side. Its payoffs are what the members earn against each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparring.config import RunConfig
from sparring.config.checks import PLAIN
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import FloatArray, PlayerRef
from sparring.environments.base import Environment, filled_together, sides_of, teams_of
from sparring.league.payoffs import Payoffs
from sparring.ops.normal_form import largest_size

EXACT = 1e-9  # how far sums may be off that are to be equal, relative to the largest payoff
APART = "apart"  # value of a matchmaker's option: each side has a population of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaGame:
    """The payoffs of a population's members against each other.

    Args:
        payoffs: for each side what its members earn, [m_0, ..., m_{n-1}], in the environment's
            units; one axis per side, members oldest first. At least two sides.
        symmetric: two sides are drawn from one population. Then payoffs[1] is payoffs[0].T, and
            solvers give both sides the same distribution.
        counts: plays behind each cell, of the same shape, infinite where a payoff is exact; None:
            all payoffs are exact.
        wins: rate of wins of the first side's member, [m_0, m_1], a draw being half a win; None:
            derived from payoffs where these are in [-1, 1].

    Raises:
        GameError: payoffs that are missing, not finite, or of shapes that do not fit.
    """

    payoffs: tuple[FloatArray, ...]
    symmetric: bool = False
    counts: FloatArray | None = None
    wins: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", _tables(self.payoffs))
        for name in ("counts", "wins"):
            table = getattr(self, name)
            if table is not None:
                object.__setattr__(self, name, np.asarray(table, dtype=np.float64))
                if getattr(self, name).shape != self.shape:
                    raise GameError(
                        f"meta-game: {name} have the shape {np.shape(table)}, and payoffs "
                        f"{self.shape}; give a value per cell of the payoffs."
                    )
        if self.counts is not None and not (self.counts >= 0).all():
            raise GameError("meta-game: counts must be at least 0; write 0 where nobody played.")
        if self.wins is not None and not ((self.wins >= 0) & (self.wins <= 1)).all():
            raise GameError("meta-game: wins must be in [0, 1], the share of plays that are won.")
        if self.symmetric:
            _check_symmetric(self.payoffs)

    @property
    def num_sides(self) -> int:
        """How many sides there are."""
        return len(self.payoffs)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many members each side has, (m_0, ..., m_{n-1})."""
        return self.payoffs[0].shape


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaStrategy:
    """Which members are answered, and how often.

    Args:
        sides: of each side a distribution over its members, [m_s].
        joint: of solvers that correlate the sides a distribution over the cells,
            [m_0, ..., m_{n-1}]; ``sides`` are its marginals.
        rows: of solvers that answer member by member a distribution over the other side's members
            for each member, [m_s, m_other]; a row of zeros belongs to a member that is not trained.
    """

    sides: tuple[FloatArray, ...]
    joint: FloatArray | None = None
    rows: tuple[FloatArray, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", _floats(self.sides))
        if self.joint is not None:
            object.__setattr__(self, "joint", np.asarray(self.joint, dtype=np.float64))
        if self.rows is not None:
            object.__setattr__(self, "rows", _floats(self.rows))


def of_matrix(matrix: Any) -> MetaGame:
    """Return the meta-game of two sides in which the second one pays what the first one earns.

    It is symmetric where the matrix is antisymmetric.

    Args:
        matrix: what the first side's members earn, [m_0, m_1].
    """
    table = np.asarray(matrix, dtype=np.float64)
    paid = table.ndim == 2 and table.shape[0] == table.shape[1] and bool((table == -table.T).all())
    return MetaGame(payoffs=(table, -table), symmetric=paid)


def _tables(payoffs: Sequence[Any]) -> tuple[FloatArray, ...]:
    tables = _floats(payoffs)
    if len(tables) < 2 or any(table.shape != tables[0].shape for table in tables):
        raise GameError(
            f"meta-game: payoffs have the shapes {[table.shape for table in tables]}; give at "
            "least two sides, each a payoff for every cell."
        )
    if tables[0].ndim != len(tables) or 0 in tables[0].shape:
        raise GameError(
            f"meta-game: payoffs of {len(tables)} sides have the shape {tables[0].shape}; give one "
            "axis per side, each of at least one member."
        )
    for number, table in enumerate(tables):
        bad = np.argwhere(~np.isfinite(table))
        if len(bad):
            cell = tuple(bad[0].tolist())
            raise GameError(
                f"meta-game: the payoff of side {number} in cell {cell} is {table[cell]}; play "
                "these members against each other first."
            )
    return tables


def _check_symmetric(payoffs: Sequence[FloatArray]) -> None:
    """Check that the payoffs of a second side are those of the first one, seen from there."""
    first, *others = payoffs
    fits = len(others) == 1 and first.shape[0] == first.shape[1]
    if not fits or float(np.abs(others[0] - first.T).max()) > EXACT * largest_size(payoffs):
        raise GameError(
            "meta-game: symmetric is true, and payoffs[1] is not payoffs[0].T; give both sides the "
            "same members, or symmetric=False."
        )


def _floats(arrays: Sequence[Any]) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(array, dtype=np.float64) for array in arrays)


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


def unmet_note(solver: BoundPlugin, game: MetaGame) -> str:
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


def takes_opposed(solver: BoundPlugin) -> bool:
    """Return whether a solver takes what two sides earn as opposed: ``TWO_SIDED`` in its module."""
    return bool(getattr(solver.plugin.module, "TWO_SIDED", False))


def check_sides(solver: BoundPlugin, environments: Iterable[Any], where: str) -> None:
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


def pair_shares(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    *,
    solver: BoundPlugin,
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


def solvers_of(config: RunConfig) -> dict[str, BoundPlugin]:
    """Return the meta-solvers of a run by the keys that name them: the answer's is the first."""
    given: dict[str, Any] = {}
    if config.league.answer not in PLAIN:
        given["league.answer"] = config.league.answer
    for where, matchmaker in _matchmakers(config).items():
        option = getattr(matchmaker.plugin.module, "SOLVER", None)
        if option is not None:
            given[f"{where}.{option}"] = _value(matchmaker, option)
    return {
        where: PluginConfig.model_validate(one).bind("league.meta_solvers")
        for where, one in given.items()
    }


def apart_by(config: RunConfig) -> tuple[str, ...]:
    """Return the keys by which members are weighed in each of two sides by themselves; or none.

    Then members meet themselves too (``league.plays``), and the answer of the run is a mixture for
    each side.
    """
    found = []
    for where, matchmaker in _matchmakers(config).items():
        option = getattr(matchmaker.plugin.module, "SIDES", None)
        if option is not None and _value(matchmaker, option) == APART:
            found.append(f"{where}.{option}")
    return tuple(found)


def _matchmakers(config: RunConfig) -> dict[str, BoundPlugin]:
    asked = {"matchmaker": config.matchmaker}
    for name, own in config.league.learners.items():
        if own.matchmaker is not None:
            asked[f"league.learners.{name}.matchmaker"] = own.matchmaker
    return {where: one.bind("league.matchmakers") for where, one in asked.items()}


def _value(bound: BoundPlugin, option: str) -> Any:
    """Return what a plug-in's option is, where it is not given its default."""
    return bound.options.get(option, bound.plugin.options[option].default)

"""The meta-game of a league, made from the payoff book, and the meta-solvers of a run.

A meta-game has a population of members for each side (a role or a team), and each member is one
choice of its side. The payoffs are the results of the members against each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparring.config import RunConfig
from sparring.config.checks import NON_MIXTURE_ANSWERS
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import FloatArray, PlayerRef
from sparring.environments.base import Environment, seats_by_player, seats_by_team, teams_of
from sparring.league.payoffs import Payoffs
from sparring.ops.normal_form import largest_size

TOLERANCE = 1e-9  # tolerance of sums, relative to the largest payoff
APART = "apart"  # value of a matchmaker's option: each side has its own population


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaGame:
    """The payoffs of a population's members against each other.

    Args:
        payoffs: one table per side, [m_0, ..., m_{n-1}], in the environment's units; one axis per
            side, members oldest first. At least two sides.
        symmetric: whether two sides have one population. Then payoffs[1] is payoffs[0].T, and
            solvers give both sides the same distribution.
        counts: number of episodes of each cell, infinite where a payoff is exact; None: all payoffs
            are exact.
        win_rates: win rate of the first side's member, [m_0, m_1], where a draw is half a win.
            None: derived from payoffs if these are in [-1, 1].

    Raises:
        GameError: payoffs are missing or not finite, or shapes do not fit.
    """

    payoffs: tuple[FloatArray, ...]
    symmetric: bool = False
    counts: FloatArray | None = None
    win_rates: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", _check_payoffs(self.payoffs))
        for name in ("counts", "win_rates"):
            table = getattr(self, name)
            if table is not None:
                object.__setattr__(self, name, np.asarray(table, dtype=np.float64))
                if getattr(self, name).shape != self.shape:
                    raise GameError(
                        f"meta-game: {name} have the shape {np.shape(table)}, and payoffs "
                        f"{self.shape}; write a value per cell of the payoffs."
                    )
        if self.counts is not None and not (self.counts >= 0).all():
            raise GameError("meta-game: counts must be at least 0; write 0 without episodes.")
        rates = self.win_rates
        if rates is not None and not ((rates >= 0) & (rates <= 1)).all():
            raise GameError("meta-game: win_rates must be in [0, 1], the share of episodes won.")
        if self.symmetric:
            _check_symmetric(self.payoffs)

    @property
    def num_sides(self) -> int:
        """Number of sides."""
        return len(self.payoffs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of members of each side, (m_0, ..., m_{n-1})."""
        return self.payoffs[0].shape


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaStrategy:
    """The result of a meta-solver: distributions over the members.

    Args:
        sides: a distribution over the members of each side, [m_s].
        joint: a distribution over the cells, [m_0, ..., m_{n-1}], from solvers that correlate the
            sides; ``sides`` are its marginals.
        rows: for each member a distribution over the other side's members, [m_s, m_other], from
            solvers with a distribution per member; members without successor have rows of zeros.
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
    """Return the zero-sum meta-game of a matrix; symmetric if the matrix is antisymmetric.

    Args:
        matrix: payoffs to the first side, [m_0, m_1].
    """
    table = np.asarray(matrix, dtype=np.float64)
    is_symmetric = (
        table.ndim == 2 and table.shape[0] == table.shape[1] and bool((table == -table.T).all())
    )
    return MetaGame(payoffs=(table, -table), symmetric=is_symmetric)


def _check_payoffs(payoffs: Sequence[Any]) -> tuple[FloatArray, ...]:
    tables = _floats(payoffs)
    if len(tables) < 2 or any(table.shape != tables[0].shape for table in tables):
        raise GameError(
            f"meta-game: payoffs have the shapes {[table.shape for table in tables]}; write at "
            "least two sides, each a payoff for every cell."
        )
    if tables[0].ndim != len(tables) or 0 in tables[0].shape:
        raise GameError(
            f"meta-game: payoffs of {len(tables)} sides have the shape {tables[0].shape}; "
            "write one axis per side, each of at least one member."
        )
    for side, table in enumerate(tables):
        invalid_cells = np.argwhere(~np.isfinite(table))
        if len(invalid_cells):
            cell = tuple(invalid_cells[0].tolist())
            raise GameError(
                f"meta-game: the payoff of side {side} in cell {cell} is {table[cell]}; play "
                "these members against each other first."
            )
    return tables


def _check_symmetric(payoffs: Sequence[FloatArray]) -> None:
    table, *other_tables = payoffs
    is_square = len(other_tables) == 1 and table.shape[0] == table.shape[1]
    tolerance = TOLERANCE * largest_size(payoffs)
    if not is_square or float(np.abs(other_tables[0] - table.T).max()) > tolerance:
        raise GameError(
            "meta-game: symmetric is true, and payoffs[1] is not payoffs[0].T; write the same "
            "members for both sides, or symmetric=False."
        )


def _floats(arrays: Sequence[Any]) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(array, dtype=np.float64) for array in arrays)


class TwoSides(NamedTuple):
    """The weight of an environment of two sides, and the first seat of each side."""

    weight: float
    seats: tuple[int, int]


def make_two_sides(environment: Environment, weight: float) -> TwoSides:
    """Return the weight and the first seats of an environment of two sides."""
    first_side, second_side = seats_by_player(tuple(teams_of(environment)))
    return TwoSides(weight, (first_side[0], second_side[0]))


def member_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environments: Mapping[str, float],
    first_members: Sequence[PlayerRef] = (),
) -> MetaGame:
    """Return the symmetric meta-game of members that may sit in any side.

    With R[i, j] the mean over sides s of i's mean return from side s against j,

        payoffs[i, j] = (R[i, j] - R[j, i]) / 2

    so that the sides' payoffs sum to 0. In a zero-sum environment this is R. Payoffs are 0 for
    members without episodes against each other, and for a member with itself. With three teams or
    more, j plays all other teams.

    Args:
        book: the payoff book.
        members: snapshots, oldest first.
        environments: weight of each environment by its label; payoffs are weighted means.
        first_members: the members of the first side, if the two sides differ. The game is then not
            symmetric, and ``members`` are the members of the second side.

    Returns:
        The meta-game. Exact results count as infinitely many episodes; if all pairs of members have
        exact results, ``counts`` is None.
    """
    players = list(dict.fromkeys((*first_members, *members)))
    index_of = {player: index for index, player in enumerate(players)}
    shape, total_weight = (len(players), len(players)), sum(environments.values())
    payoffs, counts, points, num_decided = (np.zeros(shape) for _ in range(4))
    for environment, weight in environments.items():
        returns, num_sides = np.zeros(shape), np.zeros(shape)
        for row, results in book.rows.items():
            if row.environment != environment or not results.games or row.player == row.opponent:
                continue
            if row.player not in index_of or row.opponent not in index_of:
                continue
            cell = index_of[row.player], index_of[row.opponent]
            returns[cell] += results.mean_return
            num_sides[cell] += 1
            counts[cell] += math.inf if results.exact else results.games
            points[cell] += results.wins + results.draws / 2
            num_decided[cell] += results.wins + results.draws + results.losses
        mean_returns = returns / np.maximum(num_sides, 1)
        payoffs += weight / total_weight * (mean_returns - mean_returns.T) / 2
    rates = np.where(num_decided > 0, points / np.where(num_decided > 0, num_decided, 1.0), 0.5)
    is_pair = ~np.eye(len(players), dtype=bool)
    is_exact = bool(is_pair.any() and np.isinf(counts[is_pair]).all())
    played_counts = None if is_exact else counts
    if not first_members:
        return MetaGame(
            payoffs=(payoffs, payoffs.T), symmetric=True, counts=played_counts, win_rates=rates
        )
    cells = np.ix_(*([index_of[player] for player in side] for side in (first_members, members)))
    table, played_counts = payoffs[cells], None if is_exact else counts[cells]
    return MetaGame(payoffs=(table, -table), counts=played_counts, win_rates=rates[cells])


def side_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    seats: tuple[int, int],
    *,
    opposed: bool,
) -> MetaGame:
    """Return the meta-game in which each of two sides has its own population.

    With R_s[i, j] the mean return of side s if i plays the first side and j the second,

        payoffs_0 = R_0,  payoffs_1 = R_1

    If the sides are opposed, the payoffs sum to 0:

        payoffs_0 = (R_0 - R_1) / 2 = -payoffs_1

    The payoffs of members without episodes in these sides are 0. A member may play itself.

    Args:
        book: the payoff book.
        members: snapshots, oldest first; each side has the snapshots of its role.
        environment: the environment's label.
        seats: the first seat of each side.
        opposed: whether the sides' payoffs are opposed.
    """
    index_of = {member: index for index, member in enumerate(members)}
    returns_0, returns_1, counts = (np.zeros((len(members),) * 2) for _ in range(3))
    win_rates = np.full(counts.shape, 0.5)
    for row, results in book.rows.items():
        is_counted = (
            row.environment == environment and row.player in index_of and row.opponent in index_of
        )
        if not is_counted or not results.games:
            continue
        if row.seat == seats[0]:
            cell = index_of[row.player], index_of[row.opponent]
            returns_0[cell] = results.mean_return
            counts[cell] = math.inf if results.exact else results.games
            win_rates[cell] = results.win_rate()
        elif row.seat == seats[1]:
            returns_1[index_of[row.opponent], index_of[row.player]] = results.mean_return
    if opposed:
        returns_0 = (returns_0 - returns_1) / 2
        returns_1 = -returns_0
    num_episodes = None if np.isinf(counts).all() else counts
    return MetaGame(payoffs=(returns_0, returns_1), counts=num_episodes, win_rates=win_rates)


def answer_payoffs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environments: Mapping[str, TwoSides],
    *,
    opposed: bool,
) -> MetaGame:
    """Return the weighted mean of ``side_payoffs`` over environments of two sides.

    Args:
        book: the payoff book.
        members: snapshots, oldest first: each side has the snapshots of its role.
        environments: weights and first seats, by the environment's label.
        opposed: whether the sides' payoffs are opposed.

    Returns:
        The meta-game. Numbers of episodes are summed over environments, and win rates averaged.
    """
    total = sum(sides.weight for sides in environments.values())
    pairs = [
        (side_payoffs(book, members, label, sides.seats, opposed=opposed), sides.weight / total)
        for label, sides in environments.items()
    ]
    if len(pairs) == 1:
        return pairs[0][0]
    payoffs = [
        np.sum([weight * game.payoffs[side] for game, weight in pairs], axis=0) for side in (0, 1)
    ]
    is_exact = all(game.counts is None for game, _ in pairs)
    counts = [
        np.full(game.shape, np.inf) if game.counts is None else game.counts for game, _ in pairs
    ]
    win_rates = np.sum([weight * np.asarray(game.win_rates) for game, weight in pairs], axis=0)
    num_episodes = None if is_exact else np.sum(counts, axis=0)
    return MetaGame(payoffs=(payoffs[0], payoffs[1]), counts=num_episodes, win_rates=win_rates)


def unplayed_pairs_note(solver: BoundPlugin, game: MetaGame) -> str:
    """Return a note on pairs of members that have not played each other; "" if there are none.

    The note is "" for solvers that ignore payoffs (``READS_PAYOFFS = False``). If each side has its
    own population, a pair is a member of the first side and one of the second.

    Args:
        solver: the meta-solver.
        game: the result of ``member_payoffs`` or ``answer_payoffs``.
    """
    if game.counts is None or not solver.plugin.declarations.READS_PAYOFFS:
        return ""
    have_met = game.counts.ravel() > 0
    if game.symmetric:
        have_met = (game.counts + game.counts.T)[np.triu_indices(len(game.counts), 1)] > 0
    num_missing = int((~have_met).sum())
    if not num_missing:
        return ""
    return (
        f"{num_missing} of {len(have_met)} pairs of members have never met, and "
        f"{solver.plugin.name} takes their payoffs as 0; train with league.plays=500, say, or "
        "league.plays=exact."
    )


def is_two_sided(solver: BoundPlugin) -> bool:
    """Return whether a solver is for two opposed sides (``TWO_SIDED = True`` in its module)."""
    return solver.plugin.declarations.TWO_SIDED


def check_sides(solver: BoundPlugin, environments: Iterable[Any], key: str) -> None:
    """Check that a solver for two sides is not used in environments with more teams.

    Args:
        solver: the meta-solver.
        environments: the training environments.
        key: the configuration key of the solver.

    Raises:
        ConfigError: an environment has more than two teams.
    """
    if not is_two_sided(solver):
        return
    for environment in environments:
        num_teams = len(seats_by_team(tuple(teams_of(environment))))
        if num_teams > 2:
            raise ConfigError(
                f"{key}: the meta-solver {solver.plugin.name!r} is for two teams, and "
                f"{environment.name!r} has {num_teams}; write alpha_rank, projected_replicator or "
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
    """Return the share of all episodes for each pair of members.

    With sigma the meta-strategy by the book so far, and s_ij the standard deviation of the returns
    of members i and j,

        share_ij = (1 - focus) / pairs + focus w_ij / sum over pairs of w
        w_ij = s_ij sqrt(sigma_i^2 + sigma_j^2)

    The return of member j against sigma is sum over i of sigma_i R[j, i]. With n_ij episodes of
    each pair its variance is sum over i of sigma_i^2 s_ij^2 / n_ij. Numbers proportional to w
    minimise the sum of these variances over all j. A pair of unknown deviation gets the largest
    known deviation.

    Args:
        book: the payoff book.
        members: members of the league, at least two.
        environment: the environment's label.
        solver: the solver that gives the meta-strategy.
        focus: weight of the meta-strategy, in [0, 1]; with 0 all shares are equal.

    Returns:
        The shares, in the order of ``itertools.combinations(members, 2)``.

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: the solver raised an error, or did not return distributions.
    """
    sigma: FloatArray = solver(member_payoffs(book, members, {environment: 1.0})).sides[0]
    pairs = list(itertools.combinations(members, 2))
    deviations = [book.results(*pair, environment=environment).deviation for pair in pairs]
    default = max((deviation for deviation in deviations if deviation is not None), default=1.0)
    spreads = np.array([default if deviation is None else deviation for deviation in deviations])
    norms = np.array([np.hypot(*pair) for pair in itertools.combinations(sigma.tolist(), 2)])
    weights = spreads * norms
    total = float(weights.sum())
    proportions = weights / total if total > 0 else np.full(len(pairs), 1 / len(pairs))
    shares: list[float] = ((1 - focus) / len(pairs) + focus * proportions).tolist()
    return shares


def solvers_of(config: RunConfig) -> dict[str, BoundPlugin]:
    """Return the meta-solvers of a run by configuration key, ``league.answer`` first."""
    solvers: dict[str, Any] = {}
    if config.league.answer not in NON_MIXTURE_ANSWERS:
        solvers["league.answer"] = config.league.answer
    for key, matchmaker in _matchmakers(config).items():
        option = matchmaker.plugin.declarations.SOLVER
        if option is not None:
            solvers[f"{key}.{option}"] = _option_value(matchmaker, option)
    return {
        key: PluginConfig.model_validate(solver).bind("league.meta_solvers")
        for key, solver in solvers.items()
    }


def apart_keys(config: RunConfig) -> tuple[str, ...]:
    """Return the configuration keys by which each side has its own population (``sides: apart``).

    If there are such keys, members also play themselves (``league.plays``), and the answer of the
    run is a mixture for each side.
    """
    keys = []
    for key, matchmaker in _matchmakers(config).items():
        option = matchmaker.plugin.declarations.SIDES
        if option is not None and _option_value(matchmaker, option) == APART:
            keys.append(f"{key}.{option}")
    return tuple(keys)


def _matchmakers(config: RunConfig) -> dict[str, BoundPlugin]:
    sections = {"matchmaker": config.matchmaker}
    for name, learner in config.league.learners.items():
        if learner.matchmaker is not None:
            sections[f"league.learners.{name}.matchmaker"] = learner.matchmaker
    return {key: section.bind("league.matchmakers") for key, section in sections.items()}


def _option_value(bound: BoundPlugin, option: str) -> Any:
    return bound.options.get(option, bound.plugin.options[option].default)

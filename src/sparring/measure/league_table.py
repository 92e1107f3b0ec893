"""The league table: seat-balanced matches of all pairs of players, and joint ratings.

Ratings follow the Bradley-Terry model with Davidson's ties. With strengths s_i and draw
propensity d, a pair's outcomes have weights

    i wins: exp(s_i / 2 - s_j / 2)    draw: exp(d)    j wins: exp(s_j / 2 - s_i / 2)

which is P(i wins) = p_i / (p_i + p_j + nu sqrt(p_i p_j)) with p = exp(s), nu = exp(d) (Davidson,
1970, JASA 65:317). The log-likelihood is concave; a Gaussian prior on s keeps the fit finite when a
player never loses. Unlike online ratings the fit does not depend on the order of the games.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import FloatArray, IntArray, Interval
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.measure.initial_states import Starts
from sparring.measure.matches import MatchReport, play_matches
from sparring.play.players.base import Agent

ELO = 400.0 / np.log(10.0)
"""Elo points per unit of s: 400 points are 10 to 1 odds."""
_MAX_STEPS, _PRECISION = 200, 1e-6  # the precision is in natural-log units: 0.0002 Elo


@dataclass(frozen=True, kw_only=True, slots=True)
class DavidsonFit:
    """The posterior of P strengths (natural logs, mean 0): its mode and Gaussian approximation."""

    strengths: FloatArray  # [P]
    # [P, P] covariance of the strengths around their mean: inverse curvature at the mode (Laplace)
    covariance: FloatArray
    draw: float  # d, the draw propensity; negative if draws are rare


def fit_davidson(
    wins: FloatArray | IntArray, draws: FloatArray | IntArray, *, prior_sd: float = 3.0
) -> DavidsonFit:
    """Return the most probable strengths given the counts.

    Args:
        wins: [P, P] games that the row won against the column; the diagonal is ignored.
        draws: [P, P] number of drawn games of the pair, symmetric.
        prior_sd: standard deviation of the prior on strengths and draw propensity, in natural-log
            units (3.0 is 521 Elo).

    Raises:
        ConfigError: shapes differ or are not square, a count is negative, or draws are not
            symmetric.
    """
    wins, draws = np.array(wins, dtype=np.float64), np.array(draws, dtype=np.float64)
    _check_counts(wins, draws)
    num_players = len(wins)
    first, second = np.triu_indices(num_players, 1)
    # [pairs, 3] wins of the first player, draws, wins of the second
    counts = np.stack([wins[first, second], draws[first, second], wins[second, first]], axis=1)
    # [pairs, 3, P + 1] derivatives of log-weights; the last parameter is d
    features = np.zeros((len(first), 3, num_players + 1))
    pairs = np.arange(len(first))
    features[pairs, 0, first] = features[pairs, 2, second] = 0.5
    features[pairs, 0, second] = features[pairs, 2, first] = -0.5
    features[:, 1, -1] = 1.0
    parameters, information = _newton(counts, features, prior_sd)
    centre = np.eye(num_players) - 1.0 / num_players
    return DavidsonFit(
        strengths=centre @ parameters[:-1],
        covariance=centre @ np.linalg.inv(information)[:-1, :-1] @ centre,
        draw=float(parameters[-1]),
    )


def _newton(
    counts: FloatArray, features: FloatArray, prior_sd: float
) -> tuple[FloatArray, FloatArray]:
    """Return the maximiser of log-likelihood minus |x|^2 / (2 sd^2) and the curvature there.

    Newton's steps begin at 0, where all outcomes are equally likely. The curvature is greatest
    there, so the steps do not overshoot.
    """
    x = np.zeros(features.shape[-1])
    for _ in range(_MAX_STEPS):
        gradient, information = _derivatives(x, counts, features, prior_sd)
        step = np.linalg.solve(information, gradient)
        x = x + step
        if np.abs(step).max() <= _PRECISION:
            return x, _derivatives(x, counts, features, prior_sd)[1]
    raise AssertionError(
        f"Newton's method did not converge in {_MAX_STEPS} steps on counts {counts.tolist()}."
    )


def _derivatives(
    x: FloatArray, counts: FloatArray, features: FloatArray, prior_sd: float
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the log-posterior, [K], and the negative of its Hessian, [K, K]."""
    probabilities = _probabilities(features @ x)
    games = counts.sum(axis=1, keepdims=True)
    gradient = np.einsum("po,pok->k", counts - games * probabilities, features) - x / prior_sd**2
    means = np.einsum("po,pok->pk", probabilities, features)
    second_moment = np.einsum("po,pok,pol->kl", games * probabilities, features, features)
    return gradient, second_moment - np.einsum("pk,pl->kl", games * means, means) + np.eye(
        len(x)
    ) / prior_sd**2


def _probabilities(log_weights: FloatArray) -> FloatArray:
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    probabilities: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _check_counts(wins: FloatArray, draws: FloatArray) -> None:
    if (
        wins.ndim != 2
        or wins.shape[0] != wins.shape[1]
        or wins.shape != draws.shape
        or len(wins) < 2
    ):
        raise ConfigError(
            "Ratings need wins and draws of one shape [players, players], players >= 2; "
            f"got {wins.shape} and {draws.shape}."
        )
    if (wins < 0).any() or (draws < 0).any() or not np.array_equal(draws, draws.T):
        raise ConfigError(
            "Ratings need counts that are at least 0, and draws that are symmetric: draws[i, j] "
            "== draws[j, i]."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueRow:
    """One player's results; ratings are Elo points around a mean of 0 over the table's players."""

    player: str
    rating: Interval  # count is the player's games
    wins: int
    draws: int
    losses: int
    mean_return: float  # mean over opponents with equal weights, in the game's units
    # whether the player only won or only lost, so that only the prior bounds its rating
    one_sided: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueTable:
    """A cross table and the ratings it implies; P players, in the order of the rows."""

    game: str
    rows: tuple[LeagueRow, ...]  # [P] best rating first
    # [P][P] mean return of the row against the column; 0 on the diagonal
    payoffs: tuple[tuple[float, ...], ...]
    # one per pair of players; with three or more seats, one per ordered pair
    matches: tuple[MatchReport, ...]


def league_table(
    game: Environment,
    players: Mapping[str, Agent],
    *,
    games_per_seat: int,
    stream: Stream,
    level: float = 0.95,
    on_match: Callable[[int, int], None] | None = None,
    starts: Starts | None = None,
    in_flight: int | None = None,
) -> LeagueTable:
    """Play every pair of players and rate them.

    With two seats a pair plays one match of ``2 * games_per_seat`` games. With more seats, one
    player has one seat and the other player all other seats, so a pair plays two matches.

    Args:
        game: the game.
        players: at least two agents (checkpoints, random, solvers) by the names of the table.
        games_per_seat: games of each match from each seat.
        stream: random stream of all games; a pair's games do not depend on the other players.
        level: confidence level of all intervals.
        on_match: called with (matches done, all matches) after each match.
        starts: initial states; None: all initial states of ``game``.
        in_flight: concurrent games; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than two players or two games per seat.
        RolloutError: every game of a match failed.
    """
    if len(players) < 2:
        raise ConfigError(
            f"A league table needs at least 2 players, got {sorted(players)}; add 'random' or "
            "another checkpoint."
        )
    pairs = list(itertools.combinations(sorted(players), 2))
    if game.num_seats > 2:
        pairs += [(second, first) for first, second in pairs]
    reports: dict[tuple[str, str], MatchReport] = {}
    for pair in pairs:
        agent, opponent = pair
        pair_stream = stream.child(agent).child(opponent)
        report = play_matches(
            game,
            players[agent],
            players[opponent],
            games_per_seat=games_per_seat,
            stream=pair_stream,
            level=level,
            starts=starts,
            in_flight=in_flight,
        )
        reports[pair] = replace(report, agent=agent, opponent=opponent)
        if on_match is not None:
            on_match(len(reports), len(pairs))
    return build_table(game.name, reports, level=level)


def build_table(
    game: str, reports: Mapping[tuple[str, str], MatchReport], *, level: float = 0.95
) -> LeagueTable:
    """Return the table of finished matches.

    Args:
        game: the game's name.
        reports: (agent's name in the table, opponent's) -> their match.
        level: confidence level of the ratings.
    """
    names = sorted({name for pair in reports for name in pair})
    wins, draws, payoffs = _cross_tables(names, reports)
    fit = fit_davidson(wins, draws)
    ratings = ELO * fit.strengths
    margins = NormalDist().inv_cdf((1.0 + level) / 2.0) * ELO * np.sqrt(np.diag(fit.covariance))
    order = sorted(range(len(names)), key=lambda i: (-ratings[i], names[i]))
    rows = tuple(
        _row(i, names[i], wins, draws, payoffs, (ratings[i], margins[i], level)) for i in order
    )
    ordered_payoffs = payoffs[np.ix_(order, order)]
    return LeagueTable(
        game=game,
        rows=rows,
        payoffs=tuple(tuple(row) for row in ordered_payoffs.tolist()),
        matches=tuple(reports.values()),
    )


def _row(
    i: int,
    name: str,
    wins: FloatArray,
    draws: FloatArray,
    payoffs: FloatArray,
    rating: tuple[float, float, float],
) -> LeagueRow:
    """Return the row of player ``i``; ``rating`` is (points, half the interval's width, level)."""
    num_won, num_tied, num_lost = int(wins[i].sum()), int(draws[i].sum()), int(wins[:, i].sum())
    points, margin, level = rating
    return LeagueRow(
        player=name,
        rating=Interval(
            mean=float(points),
            low=float(points - margin),
            high=float(points + margin),
            count=num_won + num_tied + num_lost,
            level=level,
        ),
        wins=num_won,
        draws=num_tied,
        losses=num_lost,
        mean_return=float(payoffs[i].sum() / (len(payoffs) - 1)),
        one_sided=num_tied == 0 and min(num_won, num_lost) == 0,
    )


def _cross_tables(
    names: Sequence[str], reports: Mapping[tuple[str, str], MatchReport]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (wins, symmetric draws, mean returns) of row against column, [P, P] each.

    A player's return is taken from the match in which the player has one seat. With two seats, the
    opponent's return is taken from the same match.
    """
    wins, draws, payoffs = np.zeros((3, len(names), len(names)))
    for (agent, opponent), report in reports.items():
        i, j = names.index(agent), names.index(opponent)
        wins[i, j] += report.overall.wins
        wins[j, i] += report.overall.losses
        draws[i, j] += report.overall.draws
        draws[j, i] += report.overall.draws
        payoffs[i, j] = report.overall.mean_return.mean
        if (opponent, agent) not in reports:
            payoffs[j, i] = report.opponent_return
    return wins, draws, payoffs

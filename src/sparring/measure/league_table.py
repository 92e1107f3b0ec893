"""The league table: every player against every other, seat-balanced.

All games at once are rated, with intervals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError
from sparring.measure.davidson import ELO, fit_davidson
from sparring.measure.matches import MatchReport, play_matches
from sparring.measure.starts import Starts
from sparring.players.base import Agent
from sparring.rng import Stream
from sparring.types import FloatArray, Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueRow:
    """One player's standing. Ratings are Elo points around a mean of 0 over the table's players."""

    player: str
    rating: Interval  # count is the player's games
    wins: int
    draws: int
    losses: int
    mean_return: float  # over the opponents, each weighted the same; in the game's units
    # only won, or only lost: no game bounds the rating on that side, only the prior does
    one_sided: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueTable:
    """A cross table and the ratings it implies; P players, in the order of the rows."""

    game: str
    rows: tuple[LeagueRow, ...]  # [P] best rating first
    # [P][P] mean return of the row against the column; 0 on the diagonal
    payoffs: tuple[tuple[float, ...], ...]
    # one per pair of players; one per ordered pair with more than two seats
    matches: tuple[MatchReport, ...]


def league_table(
    game: Game,
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

    With two seats a pair plays one match of ``2 * games_per_seat`` games. With more, a match puts
    one player in one seat and the other in the rest, so a pair plays two matches, one each way, and
    neither is favoured.

    Args:
        game: the game.
        players: at least two agents (checkpoints, random, solvers) by the names of the table.
        games_per_seat: games of each match from each seat.
        stream: what all draws derive from; a pair's games do not depend on who else plays.
        level: confidence level of all intervals.
        on_match: called with (matches done, matches in all) after each.
        starts: which starts are played from; None: those of ``game``.
        in_flight: plays at once; see ``rollout_teams``.

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
        own = stream.child(agent).child(opponent)
        report = play_matches(
            game,
            players[agent],
            players[opponent],
            games_per_seat=games_per_seat,
            stream=own,
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
    """Return the table of matches that have been played.

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
    ordered = payoffs[np.ix_(order, order)]
    return LeagueTable(
        game=game,
        rows=rows,
        payoffs=tuple(tuple(line) for line in ordered.tolist()),
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
    won, drawn, lost = int(wins[i].sum()), int(draws[i].sum()), int(wins[:, i].sum())
    points, margin, level = rating
    return LeagueRow(
        player=name,
        rating=Interval(
            mean=float(points),
            low=float(points - margin),
            high=float(points + margin),
            count=won + drawn + lost,
            level=level,
        ),
        wins=won,
        draws=drawn,
        losses=lost,
        mean_return=float(payoffs[i].sum() / (len(payoffs) - 1)),
        one_sided=drawn == 0 and min(won, lost) == 0,
    )


def _cross_tables(
    names: Sequence[str], reports: Mapping[tuple[str, str], MatchReport]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return wins, symmetric draws, and the mean return, [P, P] each.

    Wins and return are of row against column.

    A player's return is taken from the match in which it sat alone; with two seats it is the other
    side of that match.
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

"""The figures of a suite: tallies of pieces, added up, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.environments.openspiel.base import Game
from sparring.measure.matches import (
    AGENT,
    illegal_replies,
    illegal_share,
    outcome,
    succeeded,
)
from sparring.measure.regret import added_turns
from sparring.measure.suite import SuiteRow
from sparring.ops.statistics import mean_interval, wilson_interval
from sparring.types import Episode, Interval

Tally = dict[str, Any]


def tally(episodes: Sequence[Episode], teams: Sequence[int]) -> Tally:
    """Return the counts of some games; the agent's first seat is the one whose return counts.

    Args:
        episodes: of one game.
        teams: number of each seat's team.
    """
    seats = [episode.agents.index(AGENT) for episode in episodes]
    outcomes = [
        outcome(episode.returns, seat, teams) for episode, seat in zip(episodes, seats, strict=True)
    ]
    replied = [
        illegal_replies(turn for turn in episode.turns if turn.agent == AGENT)
        for episode in episodes
    ]
    returns = Counter(
        repr(float(episode.returns[seat])) for episode, seat in zip(episodes, seats, strict=True)
    )
    return {
        "returns": dict(sorted(returns.items())),
        "wins": outcomes.count(1),
        "draws": outcomes.count(0),
        "losses": outcomes.count(-1),
        "illegal": sum(illegal for illegal, _ in replied),
        "replies": sum(replies for _, replies in replied),
        "replied": _counted(Counter(replied)),
    }


def _counted(games: Counter[tuple[int, int]]) -> list[list[int]]:
    """Return games that are alike as one entry, [illegal replies, replies, number of games]."""
    return [[*game, count] for game, count in sorted(games.items())]


def _illegal(counts: Tally, level: float) -> Interval:
    """Return the share of illegal replies, clustered by game where the tally knows the games."""
    if "replied" not in counts:
        return wilson_interval(counts["illegal"], counts["replies"], level=level)
    games = (
        (illegal, replies) for illegal, replies, count in counts["replied"] for _ in range(count)
    )
    return illegal_share(games, level=level)


def added(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies, judged if all of them are."""
    parts = list(tallies)
    total: Tally = {
        key: sum(part[key] for part in parts)
        for key in ("wins", "draws", "losses", "illegal", "replies")
    }
    returns: Counter[str] = Counter()
    for part in parts:
        returns.update(part["returns"])
    if all("replied" in part for part in parts):
        games: Counter[tuple[int, int]] = Counter()
        for part in parts:
            games.update({(illegal, replies): count for illegal, replies, count in part["replied"]})
        total["replied"] = _counted(games)
    if all("judged" in part for part in parts):
        total["judged"] = added_turns([part["judged"] for part in parts]).as_data()
    return {**total, "returns": dict(returns)}


def figures(counts: Tally, row: SuiteRow, game: Game, *, level: float = 0.95) -> dict[str, Any]:
    """Return the figures of a tally as plain data.

    Games, outcomes, and intervals as {"mean", "low", "high"}.

    A win is the single highest return, in matches alone. Success is the most that the game pays, in
    games of one seat and with an oracle; regret and the share of optimal moves are there if turns
    were judged, and "oracle" says how many were.
    """
    mean = mean_return(counts, level=level)
    games = mean.count
    found: dict[str, Any] = {
        "games": games,
        "return": as_data(mean),
        "illegal": as_data(_illegal(counts, level)),
    }
    if row.kind == "match":
        wins, draws = counts["wins"], counts["draws"]
        found |= {"wins": wins, "draws": draws, "losses": counts["losses"]}
        found["win"] = as_data(wilson_interval(wins, games, level=level))
        found["win_or_draw"] = as_data(wilson_interval(wins + draws, games, level=level))
    found["score"] = (
        as_data(_clipped(score(mean, row.normalise))) if row.normalise is not None else None
    )
    if game.num_seats == 1 or row.oracle is not None:
        most = sum(
            count for value, count in counts["returns"].items() if succeeded(game, float(value))
        )
        found["success"] = as_data(wilson_interval(most, games, level=level))
    if row.oracle is not None:
        judged = added_turns([counts["judged"]]).regret(row.oracle.name, level=level)
        found |= {name: as_data(interval) for name, interval in judged.intervals.items()}
        found["oracle"] = judged.facts
    return found


def mean_return(counts: Tally, *, level: float = 0.95) -> Interval:
    """Return the mean return of a tally with Student's t interval."""
    values = sorted((float(value), count) for value, count in counts["returns"].items())
    return mean_interval(
        np.repeat([value for value, _ in values], [count for _, count in values]), level=level
    )


def score(mean: Interval, normalise: tuple[float, float]) -> Interval:
    """Return 100 * (mean - low) / (high - low) for a mean return and the ends of its interval."""
    low, high = normalise
    ends = [100.0 * (value - low) / (high - low) for value in (mean.mean, mean.low, mean.high)]
    return Interval(mean=ends[0], low=ends[1], high=ends[2], count=mean.count, level=mean.level)


def _clipped(interval: Interval) -> Interval:
    """Return an interval within 0 and 100."""
    mean, low, high = (
        min(max(value, 0.0), 100.0) for value in (interval.mean, interval.low, interval.high)
    )
    return Interval(mean=mean, low=low, high=high, count=interval.count, level=interval.level)


def mean_of_means(intervals: Sequence[tuple[float, Interval]]) -> Interval:
    """Return the weighted sum of independent means with its interval.

    Half-widths add in quadrature.

    half = sqrt(sum_i (w_i half_i)^2), exact for normal means.

    Args:
        intervals: (weight, interval), at least one, all of one level; the weights sum to 1.
    """
    mean = sum(weight * interval.mean for weight, interval in intervals)
    half = math.sqrt(
        sum((weight * (interval.high - interval.low) / 2.0) ** 2 for weight, interval in intervals)
    )
    count = sum(interval.count for _, interval in intervals)
    return Interval(
        mean=mean, low=mean - half, high=mean + half, count=count, level=intervals[0][1].level
    )


def total(rows: Sequence[tuple[SuiteRow, Tally]]) -> dict[str, float] | None:
    """Return the mean score over games, each game the mean over its rows, with its interval.

    None without a score.
    """
    games: dict[str, list[Interval]] = {}
    for row, counts in rows:
        if row.normalise is not None and row.in_totals:
            options = sorted(
                (key, str(value)) for key, value in row.options.items() if key != "style"
            )
            games.setdefault(f"{row.game}{options}", []).append(
                score(mean_return(counts), row.normalise)
            )
    if not games:
        return None
    parts = [
        (1.0 / (len(games) * len(found)), interval)
        for found in games.values()
        for interval in found
    ]
    return {**as_data(_clipped(mean_of_means(parts))), "games": len(games)}


def as_data(interval: Interval) -> dict[str, Any]:
    """Return an interval as plain numbers that JSON can hold.

    What is not a number or infinite becomes None.
    """
    parts: Mapping[str, float] = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {key: value if math.isfinite(value) else None for key, value in parts.items()}

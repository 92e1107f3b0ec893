"""The figures of a suite: tallies of pieces, added up, with intervals.

Plays the games of a suite's row in pieces, and adds them up.

Pieces can be made anywhere, in any order.

A piece is some games from one seat. Every game has streams of its own, derived from (seed, row's
name, seat, number), and pieces are cut alike whoever plays them, so the sum is the same for any
number of processes and after any interruption.

A tally counts what happened: ``{"returns": {"-1.0": 12, ...}, "wins": 3, "draws": 4, "losses": 5,
"illegal": 0, "replies": 40}``, game by game ``"replied": [[illegal replies, replies, number of such
games], ...]``, and with an oracle what it said of the turns, ``"judged": {"turns": 40, ...}``, see
``JudgedTurns.as_data``. Files of before have no ``replied``; their share of illegal replies keeps
the interval of independent replies.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparring.core.records import Episode, Interval
from sparring.core.rng import Stream
from sparring.environments.base import Environment, teams_of
from sparring.measure.initial_states import Label, Met, Starts, columns, every
from sparring.measure.matches import (
    AGENT,
    OPPONENT,
    illegal_replies,
    illegal_share,
    match_spec,
    outcome,
    succeeded,
)
from sparring.measure.regret import Judge, added_turns, judged_turns
from sparring.measure.suite import Suite, SuiteRow
from sparring.methods.oracles.base import Oracle
from sparring.ops.statistics import mean_interval, wilson_interval
from sparring.play.players.base import Agent
from sparring.play.team import play_teams

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


def figures(
    counts: Tally, row: SuiteRow, game: Environment, *, level: float = 0.95
) -> dict[str, Any]:
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


PIECE = 50
"""Games in a piece.

It is part of what a figure depends on, as games of one piece are sampled in one batch.
"""


class Piece(NamedTuple):
    """Games number ``begin`` to ``begin + games - 1`` of a row with the agent in ``seat``.

    An exact row is one piece without games.
    """

    row: int  # place of the row in its suite
    seat: int
    begin: int
    games: int

    @property
    def key(self) -> str:
        """Name of the piece within its row."""
        return f"{self.seat}:{self.begin}:{self.games}"


def starts_of(row: SuiteRow, game: Environment, met: Met) -> Starts | None:
    """Return the starts that a row is played from by who was trained on these.

    None for seen ones where there are none apart.
    """
    found = columns(game, met)
    if row.starts == "unseen" or row.kind == "exact":
        return found[0]
    return next((starts for starts in found if starts.label == "seen"), None)


def with_seen(suite: Suite, met: Met) -> tuple[Suite, list[Label]]:
    """Return the suite with a row of seen starts after each that has them.

    These rows are outside the totals; what each row's starts are is returned too.
    """
    rows: list[SuiteRow] = []
    labels: list[Label] = []
    for row in suite.rows:
        found = (every(row.make_game()),) if row.kind == "exact" else columns(row.make_game(), met)
        for starts in found:
            seen = {"name": f"{row.name}-seen", "starts": "seen", "in_totals": False}
            rows.append(row.model_copy(update=seen) if starts.label == "seen" else row)
            labels.append(starts.label)
    return suite.model_copy(update={"rows": rows}), labels


def pieces_of(place: int, row: SuiteRow, game: Environment) -> list[Piece]:
    """Return the pieces that make up row number ``place``."""
    if row.kind == "exact":
        return [Piece(place, 0, 0, 0)]
    seats = game.num_seats if row.kind == "match" else 1
    begins = range(0, row.games_per_seat, PIECE)
    return [
        Piece(place, seat, begin, min(PIECE, row.games_per_seat - begin))
        for seat in range(seats)
        for begin in begins
    ]


def play_piece(
    piece: Piece,
    row: SuiteRow,
    game: Environment,
    agent: Agent,
    opponent: Agent | None,
    seed: int,
    oracle: Oracle | None = None,
    starts: Starts | None = None,
) -> Tally:
    """Play a piece of a row and return its tally.

    The oracle, if there is one, judges every turn of the agent.

    ``starts`` are what it is played from; None: those of the game.

    Raises:
        GameError: an agent cannot play the game.
        OracleError: the oracle refuses a state.
        ModelError: a conversation outgrows the model.
        RolloutError: an endpoint failed or its budget is spent, or every game failed.
    """
    stream = Stream.from_seed(seed).child("suite").child(row.name)
    starts = starts or every(game)
    specs = [
        match_spec(starts, piece.seat, number, row.games_per_seat, stream)
        for number in range(piece.begin, piece.begin + piece.games)
    ]
    if row.kind != "match":
        specs = [dataclasses.replace(spec, seats=(AGENT,) * len(spec.seats)) for spec in specs]
    agents = {AGENT: agent} if opponent is None else {AGENT: agent, OPPONENT: opponent}
    episodes = play_teams(specs, agents)
    counts = tally(episodes, teams_of(game))
    if oracle is None:
        return counts
    return {
        **counts,
        "judged": judged_turns(
            starts.game, episodes, AGENT, Judge(oracle=oracle, budget=None)
        ).as_data(),
    }

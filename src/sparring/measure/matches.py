"""Seat-balanced matches of an agent against opponents and plays against itself, with intervals.

An agent whose plays are all alike meets one course of the game, and learns of no other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import Episode, Interval, Turn
from sparring.core.rng import Stream
from sparring.environments.base import Environment, teams_of
from sparring.measure.initial_states import Starts, every
from sparring.measure.regret import Judge, Regret, measured_regret
from sparring.ops.statistics import clustered_share_interval, mean_interval, wilson_interval
from sparring.play.players.base import Agent
from sparring.play.replay import figures_of
from sparring.play.rollout import Rollout, with_results
from sparring.play.spec import EpisodeSpec, untrained_spec
from sparring.play.team import play_teams, rollout_teams

AGENT, OPPONENT = "agent", "opponent"  # what the two are called in the episodes of a match


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Results of some games, seen by one seat's agent.

    A win is a return above those of all seats of other teams.

    A draw is one as high as the best of theirs; anything else is a loss. In cooperative games all
    is a draw, and in games of one seat all is a win: there ``success`` says how it went.
    """

    wins: int
    draws: int
    losses: int
    mean_return: Interval  # t interval, in the game's units
    win: Interval  # Wilson interval of P(win)
    win_or_draw: Interval  # Wilson interval of P(win or draw)
    # share of the agent's replies that are illegal or unparsable; games are clusters
    illegal: Interval
    # Wilson interval of P(the return is the most that the game pays), in games of one seat
    success: Interval | None = None
    regret: Regret | None = None  # what the agent's turns lost, where an oracle judged them
    # games in which a conversation outgrew a model's context; they count in nothing else
    truncated: int = 0
    failed: int = 0  # games that could not begin or go on

    @property
    def games(self) -> int:
        """Number of games."""
        return self.wins + self.draws + self.losses


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchReport:
    """An agent's results against an opponent that fills all other seats; P seats."""

    game: str
    agent: str
    opponent: str
    roles: tuple[str, ...]  # [P]
    seats: tuple[Record, ...]  # [P] the agent's results from each seat
    overall: Record
    opponent_return: float  # mean over games and the opponent's seats, in the game's units
    notes: tuple[str, ...] = ()  # on games that count in no figure


def play_matches(
    game: Environment,
    agent: Agent,
    opponent: Agent,
    *,
    games_per_seat: int,
    stream: Stream,
    level: float = 0.95,
    on_finished: Callable[[int], None] | None = None,
    judge: Judge | None = None,
    starts: Starts | None = None,
    in_flight: int | None = None,
) -> MatchReport:
    """Play ``games_per_seat`` games with the agent in each seat in turn.

    The opponent sits in all others.

    Every game has its own deal and its own draws, derived from ``stream`` by seat and number, so
    the games are independent and a longer match begins with the same games as a shorter one. A game
    in which a conversation outgrew a model's context has no result and is only counted.

    Args:
        game: the game.
        agent: who is measured.
        opponent: who fills the other seats.
        games_per_seat: games with the agent in each seat; at least 2, for an interval.
        stream: what all draws derive from.
        level: confidence level of the intervals.
        on_finished: called with the number of games that have ended.
        judge: measures the agent's regret from every seat.
        starts: which starts are played from, with the game to draw them; None: those of ``game``.
        in_flight: games at once; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than 2 games per seat.
        RolloutError: every game failed.
        OracleError: the oracle cannot judge the game, or a state of it.
    """
    if games_per_seat < 2:
        raise ConfigError(
            "An interval needs 2 or more games from each seat, got "
            f"games_per_seat={games_per_seat}; write 100, say."
        )
    starts = starts or every(game)
    game = starts.game
    specs = [
        match_spec(starts, seat, number, games_per_seat, stream)
        for seat in range(game.num_seats)
        for number in range(games_per_seat)
    ]
    agents: Mapping[str, Agent] = {AGENT: agent, OPPONENT: opponent}
    rollout = rollout_teams(
        specs, agents, on_finished=on_finished, in_flight=in_flight
    ).require_any()
    episodes = with_results(rollout.episodes)
    seats = [[e for e in episodes if e.agents[seat] == AGENT] for seat in range(game.num_seats)]
    truncated = Counter(e.agents.index(AGENT) for e in rollout.episodes if e.has_outgrown_context)
    records = [
        replace(
            _seat_record(game, played, judge, level),
            truncated=truncated[seat],
            failed=games_per_seat - len(played) - truncated[seat],
        )
        for seat, played in enumerate(seats)
    ]
    teams = teams_of(game)
    overall = record(episodes, AGENT, level=level, teams=teams)
    return MatchReport(
        game=game.name,
        agent=agent.name,
        opponent=opponent.name,
        roles=tuple(game.roles),
        seats=tuple(records),
        overall=replace(
            overall, truncated=truncated.total(), failed=len(specs) - len(rollout.episodes)
        ),
        notes=_notes(game, rollout, len(specs)),
        opponent_return=_mean(
            [
                value
                for e in episodes
                for name, value in zip(e.agents, e.returns, strict=True)
                if name == OPPONENT
            ]
        ),
    )


def _seat_record(
    game: Environment, episodes: Sequence[Episode], judge: Judge | None, level: float
) -> Record:
    found = record(episodes, AGENT, level=level, teams=teams_of(game))
    if game.num_seats == 1:
        solved = sum(succeeded(game, episode.returns[0]) for episode in episodes)
        found = replace(found, success=wilson_interval(solved, len(episodes), level=level))
    return (
        found
        if judge is None
        else replace(found, regret=measured_regret(game, episodes, AGENT, judge, level=level))
    )


def succeeded(game: Environment, value: float) -> bool:
    """Return whether a return is the most that the game pays."""
    return value >= game.max_utility - 1e-9 * max(1.0, abs(game.max_utility))


def match_spec(
    starts: Starts, seat: int, number: int, games_per_seat: int, stream: Stream
) -> EpisodeSpec:
    """Return game ``number`` of a match with the agent in ``seat``, a function of the stream."""
    own = stream.child(seat).child(number)
    seats = [AGENT if other == seat else OPPONENT for other in range(starts.game.num_seats)]
    place = seat * games_per_seat + number
    return untrained_spec(starts.game, place, seats, own, starts.deal(own, number))


def record(
    episodes: Sequence[Episode], agent: str, *, teams: Sequence[int], level: float = 0.95
) -> Record:
    """Return the results of ``agent``, which sits in exactly one seat of every episode.

    Args:
        episodes: of one game, with results; 2 or more for intervals.
        agent: the name in ``Episode.agents``.
        teams: see ``outcome``.
        level: confidence level of the intervals.
    """
    seats = [episode.agents.index(agent) for episode in episodes]
    outcomes = [
        outcome(episode.returns, seat, teams) for episode, seat in zip(episodes, seats, strict=True)
    ]
    replied = [
        illegal_replies(turn for turn in episode.turns if turn.seat == seat)
        for episode, seat in zip(episodes, seats, strict=True)
    ]
    wins, draws, games = outcomes.count(1), outcomes.count(0), len(episodes)
    return Record(
        wins=wins,
        draws=draws,
        losses=games - wins - draws,
        mean_return=mean_interval(
            [episode.returns[seat] for episode, seat in zip(episodes, seats, strict=True)],
            level=level,
        ),
        win=wilson_interval(wins, games, level=level),
        win_or_draw=wilson_interval(wins + draws, games, level=level),
        illegal=illegal_share(replied, level=level),
    )


def illegal_replies(turns: Iterable[Turn]) -> tuple[int, int]:
    """Return how many of these decisions are illegal or unparsable, and how many there are."""
    events = [turn.event for turn in turns if turn.is_decision]
    return sum(event != "ok" for event in events), len(events)


def illegal_share(games: Iterable[tuple[int, int]], *, level: float = 0.95) -> Interval:
    """Return the share of replies that are illegal or unparsable, with an interval.

    The interval takes games as clusters.

    Replies of one game are not independent: who cannot say a word fails at every turn.

    Args:
        games: of each game the illegal replies and all replies; games without a reply count for
            nothing.
        level: confidence level.
    """
    counts = np.array([game for game in games if game[1]], dtype=np.float64).reshape(-1, 2)
    return clustered_share_interval(counts[:, 0], counts[:, 1], level=level)


def _notes(game: Environment, rollout: Rollout, games: int) -> tuple[str, ...]:
    notes = []
    outgrown = sum(episode.has_outgrown_context for episode in rollout.episodes)
    if outgrown:
        notes.append(
            f"{game.name}: in {outgrown} of {games} games a conversation outgrew the model's "
            "context. They have no result and count in no figure; raise model.context, or lower "
            "rollout.max_new_tokens."
        )
    failed = games - len(rollout.episodes)
    if failed:
        notes.append(
            f"{game.name}: {failed} of {games} games could not begin or go on, and count in no "
            f"figure.{rollout.counts.reasons()} Mend the environment, or let fewer games run at "
            "once (in_flight)."
        )
    return tuple(notes)


def intervals_of(record: Record) -> dict[str, Interval]:
    """Return a record's outcomes (success of one seat), return, and regret if judged."""
    found = (
        {"success": record.success}
        if record.success
        else {"win": record.win, "win_or_draw": record.win_or_draw}
    )
    found["return"] = record.mean_return
    return found | (record.regret.intervals if record.regret is not None else {})


def outcome(returns: Sequence[float], seat: int, teams: Sequence[int] | None = None) -> int:
    """Return 1 when a seat has more than every rival, 0 as much as the best of them, else -1.

    Args:
        returns: of each seat.
        seat: whose outcome it is.
        teams: number of each seat's team: rivals are the seats of others. None, or all are one
            team: all other seats are.
    """
    if teams is None or len(set(teams)) == 1:
        teams = range(len(returns))
    rivals = [value for value, team in zip(returns, teams, strict=True) if team != teams[seat]]
    best = max(rivals, default=-math.inf)
    return (returns[seat] > best) - (returns[seat] < best)


def _mean(values: Sequence[float]) -> float:
    """Return the mean, or 0 for no values (a game with one seat has no opponents)."""
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfPlays:
    """What plays of an agent against itself came to.

    Args:
        game: the game's name.
        starts: which starts they were played from; see ``Starts.label``.
        plays: how many there are.
        distinct: how many different courses they took.
        commonest: how many took the commonest one.
        turns: replies per play, all seats, the mean.
        illegal: share of replies that are illegal; games are clusters.
        returns: mean return of each role, in the game's units.
        figures: mean of what the environment counts, by name: of each play the mean over its seats
            of which it says something.
    """

    game: str
    starts: str
    plays: int
    distinct: int
    commonest: int
    turns: float
    illegal: Interval
    returns: Mapping[str, Interval]
    figures: Mapping[str, Interval]


def self_plays(
    starts: Starts,
    agent: Agent,
    *,
    plays: int,
    stream: Stream,
    level: float = 0.95,
    in_flight: int | None = None,
) -> SelfPlays:
    """Play an agent against itself, in all seats.

    Every play has its own start and draws, so that a longer series begins with the same plays.

    Args:
        starts: what is played from, with the game.
        agent: who sits in every seat.
        plays: how many; at least 2, for an interval.
        stream: what all draws derive from.
        level: confidence level of the interval.
        in_flight: plays at once; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than 2 plays.
        RolloutError: a play could not begin or go on.
    """
    if plays < 2:
        raise ConfigError(
            f"Whether plays differ needs 2 or more of them, got {plays}; write 64, say."
        )
    game = starts.game
    everyone = (AGENT,) * game.num_seats
    specs = [
        untrained_spec(game, number, everyone, own, starts.deal(own, number))
        for number in range(plays)
        for own in [stream.child(number)]
    ]
    played = play_teams(specs, {AGENT: agent}, in_flight=in_flight)
    courses = Counter(course(episode) for episode in played)
    replies = [illegal_replies(episode.turns) for episode in played]
    return SelfPlays(
        game=game.name,
        starts=starts.label,
        plays=len(played),
        distinct=len(courses),
        commonest=max(courses.values()),
        turns=sum(turns for _, turns in replies) / len(played),
        illegal=illegal_share(replies, level=level),
        returns={
            role: mean_interval(
                [episode.returns[seat] for episode in with_results(played)], level=level
            )
            for seat, role in enumerate(game.roles)
        },
        figures=_figures(game, played, level),
    )


def _figures(game: Environment, played: Sequence[Episode], level: float) -> dict[str, Interval]:
    """Return the means of what an environment counts; none where it counts nothing."""
    counted = [found for found in (figures_of(game, one) for one in played) if found is not None]
    means = {
        name: [mean for one in counted if (mean := _mean_over_seats(one[name])) is not None]
        for name in game.figures
    }
    return {name: mean_interval(found, level=level) for name, found in means.items() if found}


def _mean_over_seats(values: Sequence[float]) -> float | None:
    """Return the mean over the seats that have a number; None where none has."""
    own = [value for value in values if not math.isnan(value)]
    return sum(own) / len(own) if own else None


def course(episode: Episode) -> Hashable:
    """Return what was done in a play, by whom and in which order.

    An illegal reply counts as such, whatever its words are: nonsense makes no play different. What
    chance did shows in it where a seat's actions follow it.
    """
    return tuple((turn.moment, turn.seat, turn.action) for turn in episode.decisions)

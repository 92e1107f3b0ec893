"""Seat-balanced matches of an agent against opponents, and self-play, with intervals."""

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
from sparring.measure.initial_states import Starts, all_starts
from sparring.measure.oracle_regret import Judge, Regret, measure_regret
from sparring.ops.statistics import clustered_share_interval, mean_interval, wilson_interval
from sparring.play.players.base import Agent
from sparring.play.replay import figures_of
from sparring.play.rollout import Rollout, within_context
from sparring.play.spec import EpisodeSpec, untrained_spec
from sparring.play.team import play_teams, rollout_teams

AGENT, OPPONENT = "agent", "opponent"  # names of both players in the episodes of a match


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRecord:
    """Results of games for the agent in one seat.

    A game is a win if the agent's return is above the returns of all other teams, a draw if it
    equals the best of them, and a loss otherwise. Cooperative games count as draws, and games of
    one seat as wins; for one seat ``success`` has the result, if the highest payoff is known.
    """

    wins: int
    draws: int
    losses: int
    mean_return: Interval  # t interval, in the game's units
    win: Interval  # Wilson interval of P(win)
    win_or_draw: Interval  # Wilson interval of P(win or draw)
    # share of illegal or unparsable replies of the agent; the interval has games as clusters
    illegal: Interval
    has_one_seat: bool = False
    success: Interval | None = None  # see ``success_interval``; None with several seats
    regret: Regret | None = None  # what the agent's turns lost, if an oracle judged them
    # games with a conversation longer than a model's context; no other field counts them
    truncated: int = 0
    failed: int = 0  # games that failed with an error

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
    seats: tuple[MatchRecord, ...]  # [P] the agent's results from each seat
    overall: MatchRecord
    opponent_return: float  # mean over games and the opponent's seats, in the game's units
    notes: tuple[str, ...] = ()  # notes about games that are not counted


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
    """Play ``games_per_seat`` games with the agent in each seat and the opponent in all others.

    Every game has its own deal and draws, derived from ``stream`` by seat and number. So the games
    are independent, and a longer match begins with the games of a shorter one. A game with a
    conversation longer than a model's context has no result and is only counted.

    Args:
        game: the game.
        agent: the agent that is measured.
        opponent: the player in the other seats.
        games_per_seat: games with the agent in each seat; at least 2, for an interval.
        stream: random stream of all games.
        level: confidence level of the intervals.
        on_finished: called with the number of games that have ended.
        judge: a judge that measures the agent's regret from every seat.
        starts: initial states, with the game that draws them; None: all states of ``game``.
        in_flight: concurrent games; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than 2 games per seat.
        RolloutError: every game failed.
        OracleError: the oracle cannot judge the game, or a state of it.
    """
    if games_per_seat < 2:
        raise ConfigError(
            "An interval needs 2 or more games from each seat, got "
            f"games_per_seat={games_per_seat}; write for example 100."
        )
    starts = starts or all_starts(game)
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
    episodes = within_context(rollout.episodes)
    groups = [[e for e in episodes if e.agents[seat] == AGENT] for seat in range(game.num_seats)]
    truncated = Counter(e.agents.index(AGENT) for e in rollout.episodes if e.has_outgrown_context)
    records = [
        replace(
            _seat_record(game, seat_episodes, judge, level),
            truncated=truncated[seat],
            failed=games_per_seat - len(seat_episodes) - truncated[seat],
        )
        for seat, seat_episodes in enumerate(groups)
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
) -> MatchRecord:
    result = record(episodes, AGENT, level=level, teams=teams_of(game))
    if game.num_seats == 1:
        num_by_return = Counter(episode.returns[0] for episode in episodes)
        success = success_interval(game, num_by_return, level=level)
        result = replace(result, has_one_seat=True, success=success)
    return (
        result
        if judge is None
        else replace(result, regret=measure_regret(game, episodes, AGENT, judge, level=level))
    )


def is_highest_payoff(game: Environment, value: float) -> bool:
    """Return whether a return is the highest possible payoff of the game."""
    return value >= game.max_utility - 1e-9 * max(1.0, abs(game.max_utility))


def success_interval(
    game: Environment, num_by_return: Mapping[float, int], *, level: float
) -> Interval | None:
    """Return the share of games with the highest payoff; None if the environment states none.

    Args:
        game: the game.
        num_by_return: number of games by their return.
        level: confidence level of the Wilson interval.
    """
    if math.isinf(game.max_utility):
        return None
    num_successes = sum(
        num for value, num in num_by_return.items() if is_highest_payoff(game, value)
    )
    return wilson_interval(num_successes, sum(num_by_return.values()), level=level)


def match_spec(
    starts: Starts, seat: int, number: int, games_per_seat: int, stream: Stream
) -> EpisodeSpec:
    """Return game ``number`` of a match with the agent in ``seat``."""
    game_stream = stream.child(seat).child(number)
    seats = [AGENT if other == seat else OPPONENT for other in range(starts.game.num_seats)]
    episode_id = seat * games_per_seat + number
    deal = starts.deal(game_stream, number)
    return untrained_spec(starts.game, episode_id, seats, game_stream, deal)


def record(
    episodes: Sequence[Episode], agent: str, *, teams: Sequence[int], level: float = 0.95
) -> MatchRecord:
    """Return the results of ``agent``, which has exactly one seat in every episode.

    Args:
        episodes: episodes of one game, with results; 2 or more for intervals.
        agent: the name in ``Episode.agents``.
        teams: see ``outcome``.
        level: confidence level of the intervals.
    """
    seats = [episode.agents.index(agent) for episode in episodes]
    outcomes = [
        outcome(episode.returns, seat, teams) for episode, seat in zip(episodes, seats, strict=True)
    ]
    reply_counts = [
        illegal_replies(turn for turn in episode.turns if turn.seat == seat)
        for episode, seat in zip(episodes, seats, strict=True)
    ]
    wins, draws, games = outcomes.count(1), outcomes.count(0), len(episodes)
    return MatchRecord(
        wins=wins,
        draws=draws,
        losses=games - wins - draws,
        mean_return=mean_interval(
            [episode.returns[seat] for episode, seat in zip(episodes, seats, strict=True)],
            level=level,
        ),
        win=wilson_interval(wins, games, level=level),
        win_or_draw=wilson_interval(wins + draws, games, level=level),
        illegal=illegal_share(reply_counts, level=level),
    )


def illegal_replies(turns: Iterable[Turn]) -> tuple[int, int]:
    """Return (illegal or unparsable decisions, all decisions) of these turns."""
    events = [turn.event for turn in turns if turn.is_decision]
    return sum(event != "ok" for event in events), len(events)


def illegal_share(games: Iterable[tuple[int, int]], *, level: float = 0.95) -> Interval:
    """Return the share of replies that are illegal or unparsable, with an interval.

    Games are clusters, because replies of one game are not independent.

    Args:
        games: illegal replies and all replies of each game; games without a reply are skipped.
        level: confidence level.
    """
    counts = np.array([game for game in games if game[1]], dtype=np.float64).reshape(-1, 2)
    return clustered_share_interval(counts[:, 0], counts[:, 1], level=level)


def _notes(game: Environment, rollout: Rollout, num_games: int) -> tuple[str, ...]:
    notes = []
    num_outgrown = sum(episode.has_outgrown_context for episode in rollout.episodes)
    if num_outgrown:
        notes.append(
            f"{game.name}: in {num_outgrown} of {num_games} games a conversation outgrew the "
            "model's context. These games have no result and count in no figure; raise "
            "model.context, or lower rollout.max_new_tokens."
        )
    num_failed = num_games - len(rollout.episodes)
    if num_failed:
        notes.append(
            f"{game.name}: {num_failed} of {num_games} games failed with an error, and count in no "
            f"figure.{rollout.counts.format_reasons()} Repair the environment, or let fewer games "
            "run at once (in_flight)."
        )
    return tuple(notes)


def intervals_of(record: MatchRecord) -> dict[str, Interval]:
    """Return a record's win rates (with one seat: success, if known), return, and regret."""
    intervals: dict[str, Interval] = {}
    if record.success is not None:
        intervals["success"] = record.success
    elif not record.has_one_seat:
        intervals |= {"win": record.win, "win_or_draw": record.win_or_draw}
    intervals["return"] = record.mean_return
    return intervals | (record.regret.intervals if record.regret is not None else {})


def outcome(returns: Sequence[float], seat: int, teams: Sequence[int] | None = None) -> int:
    """Return 1 if a seat has more than every rival, 0 if it equals the best rival, else -1.

    Args:
        returns: return of each seat.
        seat: the seat whose outcome is returned.
        teams: number of each seat's team; rivals are the seats of other teams. None or one team:
            all other seats are rivals.
    """
    if teams is None or len(set(teams)) == 1:
        teams = range(len(returns))
    rivals = [value for value, team in zip(returns, teams, strict=True) if team != teams[seat]]
    best = max(rivals, default=-math.inf)
    return (returns[seat] > best) - (returns[seat] < best)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfPlayReport:
    """Results of an agent's self-play.

    Args:
        game: the game's name.
        starts: label of the initial states; see ``Starts.label``.
        plays: number of episodes.
        distinct: number of different courses, see ``course``.
        commonest: number of episodes of the most frequent course.
        turns: mean number of replies per episode, all seats.
        illegal: share of replies that are illegal; games are clusters.
        returns: mean return of each role, in the game's units.
        figures: means of the environment's figures, by name; seats without a figure are skipped.
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
) -> SelfPlayReport:
    """Play an agent against itself, in all seats.

    Every episode has its own deal and draws, so a longer series begins with the same episodes.

    Args:
        starts: initial states, with the game.
        agent: the agent in every seat.
        plays: number of episodes; at least 2, for an interval.
        stream: random stream of all games.
        level: confidence level of the interval.
        in_flight: concurrent plays; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than 2 episodes.
        RolloutError: an episode failed.
    """
    if plays < 2:
        raise ConfigError(
            f"Counting different episodes needs 2 or more, got {plays}; write for example 64."
        )
    game = starts.game
    agents = (AGENT,) * game.num_seats
    specs = [
        untrained_spec(game, number, agents, episode_stream, starts.deal(episode_stream, number))
        for number in range(plays)
        for episode_stream in [stream.child(number)]
    ]
    episodes = play_teams(specs, {AGENT: agent}, in_flight=in_flight)
    courses = Counter(course(episode) for episode in episodes)
    reply_counts = [illegal_replies(episode.turns) for episode in episodes]
    return SelfPlayReport(
        game=game.name,
        starts=starts.label,
        plays=len(episodes),
        distinct=len(courses),
        commonest=max(courses.values()),
        turns=sum(turns for _, turns in reply_counts) / len(episodes),
        illegal=illegal_share(reply_counts, level=level),
        returns={
            role: mean_interval(
                [episode.returns[seat] for episode in within_context(episodes)], level=level
            )
            for seat, role in enumerate(game.roles)
        },
        figures=_figures(game, episodes, level),
    )


def _figures(game: Environment, episodes: Sequence[Episode], level: float) -> dict[str, Interval]:
    rows = [row for episode in episodes if (row := figures_of(game, episode)) is not None]
    means = {
        name: [mean for row in rows if (mean := _mean_over_seats(row[name])) is not None]
        for name in game.figures
    }
    return {name: mean_interval(values, level=level) for name, values in means.items() if values}


def _mean_over_seats(values: Sequence[float]) -> float | None:
    numbers = [value for value in values if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else None


def course(episode: Episode) -> Hashable:
    """Return the actions of an episode with their seats and order.

    All illegal replies count as the same action. Chance is visible only through the seats' actions.
    """
    return tuple((turn.moment, turn.seat, turn.action) for turn in episode.decisions)

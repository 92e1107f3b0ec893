"""Measures a policy: exact figures, matches, regret and a league table, as plain data.

Besides the figures that a run writes, there is this figure per game GAME and ROLE:
    value/GAME/ROLE   expected return of the role if the policy plays every seat; the probability
                      of illegal replies is left out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sparring.config.parts import parse_named
from sparring.core.errors import GameError
from sparring.core.records import PUBLISHED, Interval
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.environments.combining import with_style
from sparring.measure.agent_spec import AgentSpec, labels
from sparring.measure.exact_figures import base_game, exact_figures_of
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.measure.league_table import league_table
from sparring.measure.matches import MatchRecord, intervals_of, play_matches, self_plays
from sparring.measure.oracle_regret import Judge
from sparring.measure.references import (
    References,
    compare_with_uniform,
    reference_report,
    references,
)
from sparring.measure.suite import as_data as interval_as_data
from sparring.play.players.base import Agent
from sparring.play.players.random import RandomAgent


def exact_figures(game: Environment, policy: Any, *, max_states: int) -> dict[str, float]:
    """Return exploitability, values and probability of illegal replies of a policy.

    The policy must score actions.

    Raises:
        GameError: the game is too large, or has no information states; the message names an
            alternative.
    """
    return _score(game, enumerate_info_states(base_game(game), limit=max_states), policy)[0]


def _score(game: Environment, info_states: InfoStates, policy: Any) -> tuple[dict[str, float], str]:
    """Return (figures as in ``exact_figures``, note)."""
    exact_result = exact_figures_of(game, info_states, policy)
    values = zip(game.roles, exact_result.values, strict=True)
    values_by_role = {f"value/{game.name}/{role}": value for role, value in values}
    return {**exact_result.figures, **values_by_role}, exact_result.note


def named_games(texts: Sequence[str], *, style: str) -> list[Environment]:
    """Return the games that texts such as ``sudoku size=6`` name; the names differ.

    Args:
        texts: each is a name, then ``key=value`` options.
        style: the option ``style`` of games whose text does not set it.

    Raises:
        UnknownNameError: there is no such game or option.
        ConfigError: a text cannot be read, a value is wrong, or two games are equal.
    """
    specs = [AgentSpec(*parse_named(text, "Game", "sudoku size=6")) for text in texts]
    games = [make_game(spec.name, options=with_style(*spec, style)) for spec in specs]
    for game, name in zip(games, labels(specs, what="Game"), strict=True):
        game.name = name
    return games


def evaluate_policy(
    policy: Any,
    games: Sequence[Environment],
    *,
    opponents: Sequence[AgentSpec],
    games_per_seat: int,
    exact: bool,
    max_states: int,
    seed: int,
    judges: Mapping[str, Judge] | None = None,
    seen_states: SeenInitialStates | None = None,
    in_flight: int | None = None,
) -> dict[str, Any]:
    """Return figures, matches and notes for every game.

    Args:
        policy: the measured player.
        games: games with different names; a game with one seat is played once, without opponents.
        opponents: bots; bots of one kind must differ in their options.
        games_per_seat: games against each bot from each seat.
        exact: whether information states are enumerated where possible.
        max_states: largest number of information states for enumeration.
        seed: seed of the games played.
        judges: judges for regret, by name of the game.
        seen_states: initial states seen in training; matches are played on these, and also on
            other states where possible.
        in_flight: episodes at once; see ``rollout_teams``.

    Raises:
        UnknownNameError: there is no such bot or option.
        ConfigError: two bots are equal.
        GameError: a bot cannot play a game.
        OracleError: an oracle cannot judge a state.
    """
    bots = {label: spec.make() for label, spec in zip(labels(opponents), opponents, strict=True)}
    root = Stream.from_seed(seed).child("evaluate")
    figures: dict[str, float] = {}
    matches: list[dict[str, Any]] = []
    notes: list[str] = []
    references_of, verdicts = dict[str, References](), list[str]()
    for game in games:
        if exact:
            try:
                info_states = enumerate_info_states(base_game(game), limit=max_states)
                game_figures, note = _score(game, info_states, policy)
                figures.update(game_figures)
                notes += [note] if note else []
                references_of[game.name] = references(base_game(game), info_states)
            except GameError as error:
                notes.append(str(error))
        judge = (judges or {}).get(game.name)
        for name, bot in list(bots.items())[: 1 if game.num_seats == 1 else None]:
            stream = root.child(game.name).child(name)
            opponent = None if game.num_seats == 1 else name
            for starts in measured_starts(game, seen_states or SeenInitialStates(None)):
                report = play_matches(
                    game,
                    policy,
                    bot,
                    games_per_seat=games_per_seat,
                    stream=stream,
                    judge=judge,
                    starts=starts,
                    in_flight=in_flight,
                )
                about = {"game": game.name, "opponent": opponent, "starts": starts.label}
                rows = zip(report.roles, report.seats, strict=True)
                matches += [{**about, "role": role, **_match_row(record)} for role, record in rows]
                notes += report.notes
                if report.overall.games and (game.num_seats == 1 or isinstance(bot, RandomAgent)):
                    verdicts.append(compare_with_uniform(game, report, stream, starts, in_flight))
    return {
        "figures": figures,
        "matches": matches,
        "notes": notes,
        **reference_report(games, figures, references_of, verdicts),
    }


def _match_row(record: MatchRecord) -> dict[str, Any]:
    intervals = {**intervals_of(record), "illegal": record.illegal}
    row = {
        "games": record.games,
        **{key: as_text(value) for key, value in intervals.items()},
        "intervals": as_data(intervals),
    }
    unfinished_counts = {"truncated": record.truncated, "failed": record.failed}
    row.update({name: count for name, count in unfinished_counts.items() if count})
    if record.regret is not None:
        row["oracle"] = record.regret.facts
    return row


def as_text(interval: Interval) -> str:
    """Return an interval as text: mean [low, high]."""
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def as_data(intervals: Mapping[str, Interval]) -> dict[str, dict[str, Any]]:
    """Return intervals as numbers for JSON."""
    return {key: interval_as_data(value) for key, value in intervals.items()}


def self_plays_of(
    policy: Any,
    games: Sequence[Environment],
    *,
    plays: int,
    seen_states: SeenInitialStates,
    seed: int,
    in_flight: int | None = None,
) -> list[dict[str, Any]]:
    """Return, per game, the results of self-play as plain data.

    Args:
        policy: the player in every seat.
        games: games with different names.
        plays: number of episodes per game; at least 2.
        seen_states: initial states seen in training; other states are played where possible.
        seed: seed of the episodes.
        in_flight: episodes at once; see ``rollout_teams``.

    Raises:
        ConfigError: ``plays`` is below 2.
        RolloutError: an episode failed.
    """
    rows, root = [], Stream.from_seed(seed).child("self_plays")
    for game in games:
        starts, stream = measured_starts(game, seen_states)[0], root.child(game.name)
        result = self_plays(starts, policy, plays=plays, stream=stream, in_flight=in_flight)
        intervals = {"returns": as_data(result.returns), "figures": as_data(result.figures)}
        rows.append({**asdict(result), **intervals, "illegal": interval_as_data(result.illegal)})
    return rows


def league_of_run(
    engine: Any,
    *,
    opponents: Sequence[AgentSpec],
    games_per_seat: int,
    seed: int,
    in_flight: int | None = None,
) -> list[dict[str, Any]]:
    """Return, per game, the round-robin ratings of a run's policy, its snapshots and bots."""
    players: dict[str, Agent] = {
        label: spec.make() for label, spec in zip(labels(opponents), opponents, strict=True)
    }
    players.update({str(player): engine.agent(player) for player in (*engine.members, PUBLISHED)})
    tables = list[dict[str, Any]]()
    seen_states = SeenInitialStates(engine.config, [game for game, _ in engine.environments])
    for game, _ in engine.environments:
        stream = Stream.from_seed(seed).child("league").child(game.name)
        starts = measured_starts(game, seen_states)[0]
        table = league_table(
            game,
            players,
            games_per_seat=games_per_seat,
            stream=stream,
            starts=starts,
            in_flight=in_flight,
        )
        rows = [
            {
                "name": row.player,
                "rating": row.rating.mean,
                "low": row.rating.low,
                "high": row.rating.high,
            }
            for row in table.rows
        ]
        tables.append(
            {"game": game.name, "starts": starts.label, "rows": rows, "payoffs": table.payoffs}
        )
    return tables

"""A run's policy measured on demand: exact figures, matches and a league table, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.agents.base import Agent
from sparring.errors import GameError
from sparring.evaluate.exploitability import nash_conv
from sparring.evaluate.info_states import enumerate_info_states
from sparring.evaluate.league_table import league_table
from sparring.evaluate.matches import play_matches
from sparring.evaluate.opponents import AgentSpec, labels
from sparring.games.base import Game
from sparring.rng import Stream
from sparring.types import Interval


def exact_figures(game: Game, policy: Any, *, max_states: int) -> dict[str, float]:
    """Return exploitability, values and illegal mass of a policy that can score actions.

    Raises:
        GameError: the game is too large, or has no information states; the message says what to use instead.
    """
    report = nash_conv(game, enumerate_info_states(game, limit=max_states), policy)
    figures = {
        f"nash_conv/{game.name}": report.nash_conv,
        f"illegal_mass/{game.name}": report.illegal_mass,
        f"illegal_mass_reached/{game.name}": report.illegal_mass_reached,
    }
    for role, gain, value in zip(game.roles, report.gains, report.values, strict=True):
        figures[f"exploitability/{game.name}/{role}"] = gain
        figures[f"value/{game.name}/{role}"] = value
    if report.optimality_gap is not None:
        figures[f"optimality_gap/{game.name}"] = report.optimality_gap
    return figures


def evaluate_run(
    engine: Any, *, opponents: Sequence[AgentSpec], games_per_seat: int, exact: bool, max_states: int, seed: int
) -> dict[str, Any]:
    """Return figures, matches and notes about what could not be measured, for every game of a run.

    Args:
        engine: a loaded engine; its published policy is measured.
        opponents: bots; those of one kind are told apart by the options in which they differ.
        games_per_seat: games against each bot from each seat.
        exact: whether to enumerate where possible.
        max_states: information states up to which enumeration is tried.
        seed: of the games played.

    Raises:
        UnknownNameError: no such bot or option.
        ConfigError: two bots are the same in everything.
        GameError: a bot cannot play a game.
    """
    bots = {label: spec.make() for label, spec in zip(labels(opponents), opponents, strict=True)}
    policy, root = engine.agent("policy"), Stream.from_seed(seed).child("evaluate")
    figures: dict[str, float] = {}
    matches: list[dict[str, Any]] = []
    notes: list[str] = []
    for game, _ in engine.games:
        if exact:
            try:
                figures.update(exact_figures(game, policy, max_states=max_states))
            except GameError as error:
                notes.append(str(error))
        for name, bot in bots.items():
            report = play_matches(game, policy, bot, games_per_seat=games_per_seat, stream=root.child(game.name).child(name))
            for role, record in zip(report.roles, report.seats, strict=True):
                shares = {"win": record.win, "win_or_draw": record.win_or_draw, "return": record.mean_return, "illegal": record.illegal}
                row = {"game": game.name, "opponent": name, "role": role, "games": record.games}
                matches.append({**row, **{key: as_text(interval) for key, interval in shares.items()}, "intervals": as_data(shares)})
    return {"figures": figures, "matches": matches, "notes": notes}


def as_text(interval: Interval) -> str:
    """Return an interval as people read it: mean [low, high]."""
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def as_data(intervals: dict[str, Interval]) -> dict[str, dict[str, float]]:
    """Return intervals as plain numbers."""
    return {key: {"mean": value.mean, "low": value.low, "high": value.high} for key, value in intervals.items()}


def league_of_run(engine: Any, *, opponents: Sequence[AgentSpec], games_per_seat: int, seed: int) -> list[dict[str, Any]]:
    """Return, per game, the ratings of the run's policy, its past selves and bots after everyone has played everyone."""
    players: dict[str, Agent] = {label: spec.make() for label, spec in zip(labels(opponents), opponents, strict=True)}
    players.update({name: engine.agent(name) for name in (*engine.members, "policy")})
    tables = []
    for game, _ in engine.games:
        stream = Stream.from_seed(seed).child("league").child(game.name)
        table = league_table(game, players, games_per_seat=games_per_seat, stream=stream)
        rows = [{"name": row.player, "rating": row.rating.mean, "low": row.rating.low, "high": row.rating.high} for row in table.rows]
        tables.append({"game": game.name, "rows": rows, "payoffs": table.payoffs})
    return tables

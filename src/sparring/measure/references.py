"""Exact figures of uniform play and best play in a game, as references for a policy's figures.

Shapes: P is the number of seats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.environments.history_tree import rules_key
from sparring.measure.exploitability import (
    ExploitabilityReport,
    best_response_values,
    evaluate_exploitability,
    report_figures,
)
from sparring.measure.info_states import InfoStates, UniformScorer, enumerate_info_states
from sparring.measure.initial_states import Starts
from sparring.measure.matches import MatchReport, play_matches
from sparring.ops.sequence_form import equilibrium_value
from sparring.play.players.random import random

MAX_STATES = 2_000  # information states; references of smaller games take under a second
MAX_SOLVED_STATES = 8_000  # largest two-seat game whose equilibrium is computed
_cache: dict[tuple[str, int], References | None] = {}  # by rules and limit, in this process


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """Figures of uniform play and values of best play, in the game's units."""

    uniform: ExploitabilityReport  # every legal action with the same probability
    best: str  # kind of best play: "equilibrium", "best team" or "best play"
    values: tuple[float, ...] | None  # [P] value of best play; None if unknown or not unique


def references(game: Environment, info_states: InfoStates) -> References:
    """Return the figures of uniform play and of best play.

    Best play is an equilibrium, whose values are unique for two opposed seats (by linear
    programming). In cooperative games it is the best team; with one seat it is the best policy.

    Args:
        game: the game of the information states.
        info_states: result of ``enumerate_info_states(game)``.
    """
    key = (rules_key(game), 0)
    result = _cache.get(key)
    if result is None:
        result = _cache[key] = _references(game, info_states)
    return result


def references_of(game: Environment, *, max_states: int = MAX_STATES) -> References | None:
    """Return ``references`` of a game, cached per process; None if the game is larger."""
    cached_references = _cache.get((rules_key(game), 0))
    if cached_references is not None:
        return cached_references
    key = (rules_key(game), max_states)
    if key not in _cache:
        try:
            _cache[key] = references(game, enumerate_info_states(game, limit=max_states))
        except GameError:  # too large, or no information states
            _cache[key] = None
    return _cache[key]


def _references(game: Environment, info_states: InfoStates) -> References:
    uniform_report = evaluate_exploitability(game, info_states, UniformScorer())
    if game.num_seats == 1:
        rows = [
            np.full(len(query.legal_actions), 1.0 / len(query.legal_actions))
            for query in info_states.queries
        ]
        value = float(best_response_values(game, info_states, rows)[0])
        return References(uniform=uniform_report, best="best play", values=(value,))
    if game.cooperative:
        joint_value = uniform_report.best_joint_value
        return References(
            uniform=uniform_report,
            best="best team",
            values=None if joint_value is None else (joint_value,) * game.num_seats,
        )
    values = None
    if game.num_seats == 2 and game.zero_sum and len(info_states) <= MAX_SOLVED_STATES:
        value = equilibrium_value(info_states.tree, info_states.seats, info_states.widths) + 0.0
        values = (value, 0.0 - value)
    return References(uniform=uniform_report, best="equilibrium", values=values)


def reference_values(game: Environment, refs: References) -> dict[str, tuple[float, float | None]]:
    """Return (uniform play's value, best play's or None if unknown) of each exact figure."""
    name, values = game.name, refs.values or (None,) * game.num_seats
    uniform_figures = report_figures(game, refs.uniform)
    pairs: dict[str, tuple[float, float | None]] = {
        figure: (0.0 if figure.startswith("illegal_mass") else value, 0.0)
        for figure, value in uniform_figures.items()
    }
    # an equilibrium has values above 0 here if team-mates have private information
    as_one_figures = [figure for figure in pairs if figure.startswith("as_one_exploitability/")]
    pairs |= {figure: (uniform_figures[figure], None) for figure in as_one_figures}
    for role, uniform, best in zip(game.roles, refs.uniform.values, values, strict=True):
        pairs[f"value/{name}/{role}"] = (uniform, best)
    return pairs


def compare_nash_conv(figure: str, value: float, game_references: References) -> str:
    """Return a sentence that compares a NashConv with uniform play and best play.

    Args:
        figure: how the sentence names the figure, such as "NashConv".
        value: the policy's figure.
        game_references: reference values of the same game.
    """
    uniform = game_references.uniform.nash_conv
    text = f"{figure} {value:.3f}: uniform play has {uniform:.3f}, an equilibrium 0"
    if uniform <= 0:
        return f"{text}."
    share = value / uniform
    return f"{text}; this is {share:.0%} of uniform play's." if share < 10 else f"{text}."


UNIFORM_GAMES = 200  # largest number of games per seat of uniform play, for comparison
MAX_ILLEGAL_SHARE = 0.05  # with a larger share of illegal replies NashConv alone misleads


def reference_report(
    games: Sequence[Environment],
    figures: Mapping[str, float],
    references_by_game: Mapping[str, References],
    verdicts: Sequence[str],
) -> dict[str, Any]:
    """Return the references of each figure, and sentences that compare the policy with them.

    Args:
        games: the measured games.
        figures: exact figures of the policy, by name.
        of_game: references by the game's name, for games that could be enumerated.
        verdicts: sentences about matches, which come last.
    """
    pairs: dict[str, tuple[float, float | None]] = {}
    sentences = []
    for game in games:
        if game.name in references_by_game:
            pairs.update(reference_values(game, references_by_game[game.name]))
            if f"nash_conv/{game.name}" not in figures:
                continue  # mixtures of teams have no NashConv
            text = compare_nash_conv(
                "NashConv", figures[f"nash_conv/{game.name}"], references_by_game[game.name]
            )
            text += describe_illegal(figures[f"illegal_mass_reached/{game.name}"])
            sentences.append(f"{game.name}: {text}")
    references = {
        name: dict(zip(("uniform", "best"), pairs[name], strict=True))
        for name in figures
        if name in pairs
    }
    return {"references": references, "verdicts": [*sentences, *verdicts]}


def run_verdicts(config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences about the last NashConv of each game that has quick references.

    Args:
        config: the run's configuration, from its folder; games that cannot be made are skipped.
        lines: lines of metrics.jsonl.
    """
    sections, verdicts = config.get("environments", config.get("games")), []
    for section in sections if isinstance(sections, list) else ():
        try:  # another version or person may have written the folder
            entry = EnvironmentConfig.model_validate(section)
            name = f"nash_conv/{entry.display_name}"
            last = next((line for line in reversed(lines) if line.get(name) is not None), None)
            if last is None or entry.name not in registry.built_in("environments"):
                continue
            game_references = references_of(configured_game(entry))
        except ValueError:
            continue
        if game_references is not None:
            text = compare_nash_conv(
                f"NashConv at step {last['step']}", last[name], game_references
            )
            text += describe_illegal(last.get(f"illegal_mass_reached/{entry.display_name}") or 0.0)
            verdicts.append(f"{entry.display_name}: {text}")
    return verdicts


def describe_illegal(mass: float) -> str:
    """Return a sentence about illegal replies, which NashConv ignores; "" if they are few."""
    if mass < MAX_ILLEGAL_SHARE:
        return ""
    return (
        f" It ignores illegal replies, {mass:.0%} of all replies in episodes, "
        "and so does not measure skill yet."
    )


def compare_with_uniform(
    game: Environment,
    report: MatchReport,
    stream: Stream,
    starts: Starts,
    in_flight: int | None = None,
) -> str:
    """Return a sentence that compares the agent's results with those of uniform play."""
    games = max(min(report.overall.games // game.num_seats, UNIFORM_GAMES), 2)
    uniform = play_matches(
        game,
        random(),
        random(),
        games_per_seat=games,
        stream=stream,
        starts=starts,
        in_flight=in_flight,
    )
    share, uniform_share = (_share(result, game.num_seats) for result in (report, uniform))
    opponent_text = "" if game.num_seats == 1 else f" against {report.opponent}"
    figure = "success" if game.num_seats == 1 else "win or draw"
    agent_mean, uniform_mean = (result.overall.mean_return.mean for result in (report, uniform))
    payoffs = f"mean return {agent_mean:.3f}, uniform play {uniform_mean:.3f}"
    opponent_text += "" if starts.label == "all" else f" on {starts.label} starts"
    shares = (
        f"{figure} {share:.3f}, uniform play {uniform_share:.3f}; "
        if share is not None and uniform_share is not None
        else ""
    )
    return f"{game.name}{opponent_text}: {shares}{payoffs}."


def _share(report: MatchReport, seats: int) -> float | None:
    """Return the share of successes of one seat, if known, or of wins and draws."""
    share = report.seats[0].success if seats == 1 else report.overall.win_or_draw
    return None if share is None else share.mean

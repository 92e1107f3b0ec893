"""What uniform play and best play reach in a game, exactly, to be set beside a policy's figures.

A NashConv of 0.7 says little to who does not know that uniform play has 0.917. P seats.
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
    figures_of,
    nash_conv,
)
from sparring.measure.info_states import InfoStates, UniformScorer, enumerate_info_states
from sparring.measure.initial_states import Starts
from sparring.measure.matches import MatchReport, play_matches
from sparring.ops.sequence_form import equilibrium_value
from sparring.play.players.random import random

MOST_STATES = 2_000  # information states up to which they are found unasked, within a second
MOST_SOLVED = 8_000  # information states of a two-seat game whose equilibrium is computed
_known: dict[tuple[str, int], References | None] = {}  # by the rules and the limit, in this process


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """What is known of a game: figures of uniform play, values of best play, in its units."""

    uniform: (
        ExploitabilityReport  # the policy that plays every legal action with the same probability
    )
    best: str  # what best play is: "equilibrium", "best team" or "best play"
    values: tuple[float, ...] | None  # [P] of best play; None where they are unknown or not unique


def references(game: Environment, info_states: InfoStates) -> References:
    """Return what uniform play and best play reach.

    Best play is an equilibrium; its values are unique for two opposed seats (by linear
    programming). In cooperative games it is the best team, of one seat alone the best policy.

    Args:
        game: the game the information states were enumerated from.
        info_states: of ``enumerate_info_states(game)``.
    """
    key = (rules_key(game), 0)
    known = _known.get(key)
    if known is None:
        known = _known[key] = _references(game, info_states)
    return known


def references_of(game: Environment, *, max_states: int = MOST_STATES) -> References | None:
    """Return ``references`` of a game, found once per process; None if it is larger."""
    solved = _known.get((rules_key(game), 0))
    if solved is not None:
        return solved
    key = (rules_key(game), max_states)
    if key not in _known:
        try:
            _known[key] = references(game, enumerate_info_states(game, limit=max_states))
        except GameError:  # too large, or without information states
            _known[key] = None
    return _known[key]


def _references(game: Environment, info_states: InfoStates) -> References:
    uniform = nash_conv(game, info_states, UniformScorer())
    if game.num_seats == 1:
        rows = [
            np.full(len(query.legal_actions), 1.0 / len(query.legal_actions))
            for query in info_states.queries
        ]
        value = float(best_response_values(game, info_states, rows)[0])
        return References(uniform=uniform, best="best play", values=(value,))
    if game.cooperative:
        joint = uniform.best_joint_value
        return References(
            uniform=uniform,
            best="best team",
            values=None if joint is None else (joint,) * game.num_seats,
        )
    values = None
    if game.num_seats == 2 and game.zero_sum and len(info_states) <= MOST_SOLVED:
        value = equilibrium_value(info_states.tree, info_states.seats, info_states.widths) + 0.0
        values = (value, 0.0 - value)
    return References(uniform=uniform, best="equilibrium", values=values)


def beside(game: Environment, known: References) -> dict[str, tuple[float, float | None]]:
    """Return what uniform and best play have for each exact figure; None is unknown."""
    name, values = game.name, known.values or (None,) * game.num_seats
    uniform = figures_of(game, known.uniform)
    found: dict[str, tuple[float, float | None]] = {
        figure: (0.0 if figure.startswith("illegal_mass") else value, 0.0)
        for figure, value in uniform.items()
    }
    # an equilibrium has these above 0 where mates hide anything
    as_one = [figure for figure in found if figure.startswith("as_one_exploitability/")]
    found |= {figure: (uniform[figure], None) for figure in as_one}
    for role, mean, best in zip(game.roles, known.uniform.values, values, strict=True):
        found[f"value/{name}/{role}"] = (mean, best)
    return found


def sentence(figure: str, value: float, known: References) -> str:
    """Return how far a NashConv is from uniform play and from best play.

    Args:
        figure: what to call the figure, such as "NashConv".
        value: the policy's.
        known: of the same game.
    """
    uniform = known.uniform.nash_conv
    side = f"{figure} {value:.3f}: uniform play has {uniform:.3f}, an equilibrium 0"
    if uniform <= 0:
        return f"{side}."
    share = value / uniform
    return f"{side}; this is {share:.0%} of uniform play's." if share < 10 else f"{side}."


UNIFORM_GAMES = 200  # per seat, of the random agent that is set beside the policy
MANY_ILLEGAL = (
    0.05  # share of replies that are no legal action, from which NashConv alone would mislead
)


def told(
    games: Sequence[Environment],
    figures: Mapping[str, float],
    known: Mapping[str, References],
    verdicts: Sequence[str],
) -> dict[str, Any]:
    """Return what uniform play and best play have beside each figure, and sentences.

    Args:
        games: those measured.
        figures: exact ones of the policy, by name.
        known: by the game's name, where it could be enumerated.
        verdicts: sentences on matches, which come last.
    """
    found: dict[str, tuple[float, float | None]] = {}
    sentences = []
    for game in games:
        if game.name in known:
            found.update(beside(game, known[game.name]))
            if f"nash_conv/{game.name}" not in figures:
                continue  # a mixture that teams of several seats draw from has none
            said = sentence("NashConv", figures[f"nash_conv/{game.name}"], known[game.name])
            said += about_illegal(figures[f"illegal_mass_reached/{game.name}"])
            sentences.append(f"{game.name}: {said}")
    both = {
        name: dict(zip(("uniform", "best"), found[name], strict=True))
        for name in figures
        if name in found
    }
    return {"references": both, "verdicts": [*sentences, *verdicts]}


def run_verdicts(config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence per game of a run on its last NashConv, where references are quickly known.

    Args:
        config: of the run, from its folder; games that cannot be made are passed over.
        lines: of metrics.jsonl.
    """
    sections, found = config.get("environments", config.get("games")), []
    for section in sections if isinstance(sections, list) else ():
        try:  # the folder may be of another version, or a stranger's
            entry = EnvironmentConfig.model_validate(section)
            name = f"nash_conv/{entry.known_as}"
            last = next((line for line in reversed(lines) if line.get(name) is not None), None)
            if last is None or entry.name not in registry.built_in("environments"):
                continue
            known = references_of(configured_game(entry))
        except ValueError:
            continue
        if known is not None:
            said = sentence(f"NashConv at step {last['step']}", last[name], known)
            said += about_illegal(last.get(f"illegal_mass_reached/{entry.known_as}") or 0.0)
            found.append(f"{entry.known_as}: {said}")
    return found


def about_illegal(mass: float) -> str:
    """Return a sentence on replies that NashConv leaves out, where they are many; else ""."""
    if mass < MANY_ILLEGAL:
        return ""
    return (
        f" It leaves out replies that are no legal action, {mass:.0%} of those in play, "
        "and so is no measure of skill yet."
    )


def beside_uniform(
    game: Environment,
    report: MatchReport,
    stream: Stream,
    starts: Starts,
    in_flight: int | None = None,
) -> str:
    """Return how often the agent won or drew, or succeeded, beside uniform play."""
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
    one, two = (_share(result, game.num_seats) for result in (report, uniform))
    against = "" if game.num_seats == 1 else f" against {report.opponent}"
    what = "success" if game.num_seats == 1 else "win or draw"
    mine, other = (result.overall.mean_return.mean for result in (report, uniform))
    payoffs = f"mean return {mine:.3f}, uniform play {other:.3f}"
    against += "" if starts.label == "all" else f" on {starts.label} starts"
    return f"{game.name}{against}: {what} {one:.3f}, uniform play {two:.3f}; {payoffs}."


def _share(report: MatchReport, seats: int) -> float:
    """Return the share of games won or drawn; of successes where one plays alone."""
    alone = report.seats[0].success
    return alone.mean if seats == 1 and alone is not None else report.overall.win_or_draw.mean

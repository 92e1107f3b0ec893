"""Exact figures of whoever is measured: of a policy, or of a mixture that teams draw from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparring.environments.base import side_numbers, sides_of, teams_of
from sparring.environments.openspiel.base import Game
from sparring.errors import GameError
from sparring.measure.chosen import as_beneath, beneath
from sparring.measure.exploitability import ask, check_states, figures_of, nash_conv
from sparring.measure.info_states import InfoStates
from sparring.measure.team_exploitability import MOST, has_teams, team_exploitability
from sparring.ops.game_tree import policy_values
from sparring.players.mixture import Mixture
from sparring.refs import PlayerRef
from sparring.types import FloatArray, IntArray


class ExactFigures(NamedTuple):
    """What enumeration says.

    Args:
        figures: by the names under which runs and evaluations know them.
        values: expected return of each seat where the policy sits in all.
        note: what has no exact meaning here, or "".
    """

    figures: dict[str, float]
    values: tuple[float, ...]
    note: str = ""


def exact_figures_of(game: Game, info_states: InfoStates, policy: Any) -> ExactFigures:
    """Return the exact figures of a policy, or of a mixture.

    The seats of a team share the draw of a mixture, which may have other weights in each of two
    sides. Where a team has several of them, no policy plays as the mixture does, so that there is
    no NashConv; what a team gains is computed from the members. Where each seat is a team, or all
    are one, each seat draws for itself, and the figures are those of the one policy that plays the
    same.

    Args:
        game: whose policy it is.
        info_states: of ``enumerate_info_states(beneath(game))``.
        policy: who is measured, in every seat.

    Raises:
        SparringError: as for ``nash_conv``.
        GameError: as for ``nash_conv``; or the members' draws are too many to go through.
    """
    if has_teams(teams_of(game)) and isinstance(policy, Mixture):
        return _of_mixture(game, info_states, policy)
    report = nash_conv(beneath(game), info_states, as_beneath(game, policy))
    return ExactFigures(figures_of(game, report), report.values)


def _of_mixture(game: Game, info_states: InfoStates, mixture: Mixture) -> ExactFigures:
    """Return the figures of a mixture that each team draws from once per play."""
    check_states(beneath(game), info_states)
    teams, name = tuple(teams_of(game)), game.name
    members = list(mixture.shares())
    scorers: list[Any] = [as_beneath(game, mixture.agent(member)) for member in members]
    weights = np.array([_shares(mixture.at(game, own[0]), members) for own in sides_of(teams)])
    side = np.array(side_numbers(teams))[info_states.seats]
    asked = [ask(scorer, info_states) for scorer in scorers]
    illegal = np.array([row for _, row in asked])
    profiles = [profile for profile, _ in asked]
    values, reached = _drawn(info_states, len(teams), side, profiles, weights, illegal)
    figures = {
        f"illegal_mass/{name}": _mass(weights, side, illegal),
        f"illegal_mass_reached/{name}": reached,
    }
    note = (
        f"{name}: no NashConv of a mixture, as the seats of a team share its draw and no policy of "
        "one seat plays so; "
    )
    found = team_exploitability(info_states, teams, profiles, weights.tolist())
    if found is None:
        note += "its teams have too many plans to try. Measure a member alone (--answer policy)."
    else:
        figures[f"team_exploitability/{name}"] = found.team_exploitability
        figures[f"one_seat_exploitability/{name}"] = found.one_seat_exploitability
        note += "team_exploitability and one_seat_exploitability are of the mixture."
    return ExactFigures(figures, tuple(values.tolist()), note)


def _shares(mixture: Mixture, members: Sequence[PlayerRef]) -> FloatArray:
    """Return the share of each member in one side, [K]."""
    shares = mixture.shares()
    weights = np.array([shares.get(member, 0.0) for member in members])
    found: FloatArray = weights / weights.sum()
    return found


def _mass(weights: FloatArray, side: IntArray, illegal: FloatArray) -> float:
    """Return the mean illegal mass of an information state.

    Args:
        weights: of each member in each side, [S, K].
        side: of each information state, [I].
        illegal: of each member in each information state, [K, I].
    """
    found = 0.0
    for own in dict.fromkeys(map(tuple, weights.tolist())):  # sides that draw alike are one
        places = np.flatnonzero((weights == own).all(axis=1)[side])
        part = illegal.take(places, axis=1).mean(axis=1)
        found += len(places) / len(side) * float(np.array(own) @ part)
    return found


def _drawn(
    info_states: InfoStates,
    seats: int,
    side: IntArray,
    profiles: Sequence[Sequence[FloatArray]],
    weights: FloatArray,
    illegal: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the expected return of each seat, [P], and the mean illegal mass of a turn in play.

    Both are means over the draws of all teams.

    Args:
        info_states: of the environment.
        seats: how many.
        side: of each information state, [I].
        profiles: of the members, K.
        weights: of each member in each side, [S, K].
        illegal: of each member in each information state, [K, I].

    Raises:
        GameError: there are too many draws.
    """
    tree, acts = info_states.tree, side.tolist()
    there = [np.flatnonzero(own).tolist() for own in weights]
    draws = math.prod(map(len, there))
    if draws * len(tree.parent) > MOST:
        raise GameError(
            f"{info_states.rules}: {draws} draws of {len(there)} teams from {len(profiles)} "
            "members are too many for exact figures; measure a member alone (--answer policy), or "
            "matches."
        )
    values, wrong, visits = np.zeros(seats), 0.0, 0.0
    for draw in itertools.product(*there):
        share = math.prod(float(weights[place, member]) for place, member in enumerate(draw))
        rows = [profiles[draw[place]][index] for index, place in enumerate(acts)]
        found = policy_values(tree, info_states.seats, rows)
        lost = np.array([illegal[draw[place], index] for index, place in enumerate(acts)])
        values += share * found.returns
        wrong += share * float(found.reach @ lost)
        visits += share * float(found.reach.sum())
    return values, wrong / visits

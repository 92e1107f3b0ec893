"""Exact figures of whoever is measured: of a policy, or of a mixture that teams draw from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparring.environments.base import sides_of, teams_of
from sparring.environments.openspiel.base import Game
from sparring.errors import GameError
from sparring.measure.exploitability import ask, check_states, figures_of, nash_conv
from sparring.measure.info_states import InfoStates
from sparring.measure.team_exploitability import MOST, has_teams, team_exploitability
from sparring.ops.game_tree import policy_values
from sparring.players.mixture import Mixture
from sparring.types import FloatArray


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

    The seats of a team share the draw of a mixture. Where a team has several of them, no policy
    plays as the mixture does, so that there is no NashConv; what a team gains is computed from the
    members. Where each seat is a team, or all are one, each seat draws for itself, and the figures
    are those of the one policy that plays the same.

    Args:
        game: the game the information states were enumerated from.
        info_states: of ``enumerate_info_states(game)``.
        policy: who is measured, in every seat.

    Raises:
        SparringError: as for ``nash_conv``.
        GameError: as for ``nash_conv``; or the members' draws are too many to go through.
    """
    if has_teams(teams_of(game)) and isinstance(policy, Mixture):
        return _of_mixture(game, info_states, policy)
    report = nash_conv(game, info_states, policy)
    return ExactFigures(figures_of(game, report), report.values)


def _of_mixture(game: Game, info_states: InfoStates, mixture: Mixture) -> ExactFigures:
    """Return the figures of a mixture that each team draws from once per play."""
    check_states(game, info_states)
    teams, name = teams_of(game), game.name
    scorers: list[Any] = [mixture.agent(member) for member in mixture.shares()]
    weights = np.array([*mixture.shares().values()])
    weights /= weights.sum()
    asked = [ask(scorer, info_states) for scorer in scorers]
    illegal = np.array([row for _, row in asked])
    profiles = [profile for profile, _ in asked]
    values, reached = _drawn(info_states, teams, profiles, weights, illegal)
    figures = {
        f"illegal_mass/{name}": float(weights @ illegal.mean(axis=1)),
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


def _drawn(
    info_states: InfoStates,
    teams: Sequence[int],
    profiles: Sequence[Sequence[FloatArray]],
    weights: FloatArray,
    illegal: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the expected return of each seat, [P], and the mean illegal mass of a turn in play.

    Both are means over the draws of all teams.

    Raises:
        GameError: there are too many draws.
    """
    tree, seats = info_states.tree, info_states.seats
    sides = sides_of(tuple(teams))
    number = {team: place for place, team in enumerate(teams[side[0]] for side in sides)}
    acts = [number[teams[seat]] for seat in seats.tolist()]  # the side of each information state
    draws = len(profiles) ** len(sides)
    if draws * len(tree.parent) > MOST:
        raise GameError(
            f"{info_states.rules}: {draws} draws of {len(sides)} teams from {len(profiles)} "
            "members are too many for exact figures; measure a member alone (--answer policy), or "
            "matches."
        )
    values, wrong, visits = np.zeros(len(teams)), 0.0, 0.0
    for draw in itertools.product(range(len(profiles)), repeat=len(sides)):
        share = math.prod(float(weights[member]) for member in draw)
        rows = [profiles[draw[side]][index] for index, side in enumerate(acts)]
        found = policy_values(tree, seats, rows)
        lost = np.array([illegal[draw[side], index] for index, side in enumerate(acts)])
        values += share * found.returns
        wrong += share * float(found.reach @ lost)
        visits += share * float(found.reach.sum())
    return values, wrong / visits

"""Exact figures of a policy, or of a mixture that teams draw from.

Of a game of the combinator ``choose`` exact figures are those of the game beneath it, in which
every action may be a best response. What a chooser plays there is, after what a seat knows, h,

    P(a | h) = sum over c of  P(c | h) * P(number of a in c | h, c)

where c are the lists of candidates that the seat has been shown up to now, this decision's last.
Those of decisions before weigh as much as they lead to the seat's own actions in h.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sparring.core.errors import GameError
from sparring.core.records import FloatArray, IntArray, Observation, PlayerRef
from sparring.environments.base import Environment, side_numbers, sides_of, teams_of
from sparring.environments.choose import ChooseEnvironment
from sparring.environments.choose.proposer import candidates_key, numbers
from sparring.measure.exploitability import (
    MOST,
    ask,
    check_states,
    figures_of,
    has_teams,
    nash_conv,
    team_exploitability,
)
from sparring.measure.info_states import ActionScorer, InfoStates, Query, renormalise
from sparring.ops.game_tree import policy_values
from sparring.play.players.mixture import Mixture

MOST_CONVERSATIONS = 200_000  # conversations that are gone through
# share, what was told, replies and candidates before: a conversation that goes on
_Start = tuple[float, tuple[Observation, ...], tuple[str, ...], str]


def beneath(game: Environment) -> Any:
    """Return the game in which exact figures of a game are taken: the one beneath a choice.

    Where a seat proposes it is the game itself, of which there are none.
    """
    return game.inner if type(game) is ChooseEnvironment else game


def as_beneath(game: Environment, policy: Any) -> Any:
    """Return a policy as one of the game in which exact figures are taken."""
    return ChosenScorer(game, policy) if type(game) is ChooseEnvironment else policy


class _Line(NamedTuple):
    share: float  # probability of its candidates, and of the seat's choices before
    seen: tuple[Observation, ...]
    replies: tuple[str, ...]
    before: str
    shown: tuple[str, ...]


class ChosenScorer:
    """A chooser's policy over the actions of the game beneath.

    Args:
        game: with the candidates.
        policy: which chooses; asked for numbers.
    """

    def __init__(self, game: ChooseEnvironment, policy: ActionScorer) -> None:
        self.game, self.policy = game, policy

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return the logarithms of the probabilities of the game's actions.

        They miss 1 by the mass of replies that are no number of a candidate. Of seats that do not
        choose they are the policy's own. Where the seat's own actions before have probability 0 all
        legal actions have the same.

        Args:
            queries: with every decision of a seat all those of the same seat before it.

        Raises:
            GameError: there are too many conversations, or a decision before is not among them.
        """
        lines: dict[tuple[int, str], list[tuple[_Line, FloatArray]]] = {}
        choosing = [query for query in queries if query.seat in self.game.choosers]
        others = [
            replace(query, game=self.game.name)
            for query in queries
            if query.seat not in self.game.choosers
        ]
        said_alone = self.policy.action_logprobs(others) if others else []
        rows: dict[tuple[int, str], FloatArray] = {
            (query.seat, query.key): row for query, row in zip(others, said_alone, strict=True)
        }
        for depth in sorted({len(query.actions) for query in choosing}):
            level = [query for query in choosing if len(query.actions) == depth]
            found = [self._lines(query, lines) for query in level]
            asked = [
                self._asked(query, line)
                for query, own in zip(level, found, strict=True)
                for line in own
            ]
            said = iter(self.policy.action_logprobs(asked))
            for query, own in zip(level, found, strict=True):
                place = (query.seat, query.key)
                lines[place], rows[place] = _mixed(query, [(line, next(said)) for line in own])
        return [rows[query.seat, query.key] for query in queries]

    def _lines(
        self, query: Query, known: dict[tuple[int, str], list[tuple[_Line, FloatArray]]]
    ) -> list[_Line]:
        offers = self.game.proposer.offers(query.legal_actions)
        starts: list[_Start] = [(1.0, (), (), "")]
        if query.actions:
            parent = known.get((query.seat, query.seen[-2].key))
            if parent is None:
                raise GameError(
                    f"{self.game.name}: what seat {query.seat} decided before {query.key!r} is "
                    "not among the information states; ask for all of them at once."
                )
            starts = [_chosen(line, chances, query.actions[-1]) for line, chances in parent]
        starts = [start for start in starts if start[0] > 0]
        if len(starts) * len(offers) > MOST_CONVERSATIONS:
            raise GameError(
                f"{self.game.name}: no exact figures, as {len(starts) * len(offers):,} lists of "
                f"candidates lead to one information state; {MOST_CONVERSATIONS:,} are gone "
                "through at most."
            )
        return [
            _Line(
                share * chance,
                (*seen, self.game.offered(query.seen[-1], shown, before)),
                replies,
                before,
                shown,
            )
            for share, seen, replies, before in starts
            for chance, shown in offers
        ]

    def _asked(self, query: Query, line: _Line) -> Query:
        return Query(
            game=self.game.name,
            seat=query.seat,
            key=line.seen[-1].key,
            observations=tuple(seen.text for seen in line.seen),
            actions=line.replies,
            legal_actions=numbers(len(line.shown)),
            seen=line.seen,
            teams=query.teams,
        )


def _chosen(line: _Line, chances: FloatArray, action: str) -> _Start:
    """Return how a conversation goes on after an action; share 0 where it cannot."""
    if action not in line.shown:
        return 0.0, (), (), ""
    place = line.shown.index(action)
    replies = (*line.replies, numbers(len(line.shown))[place])
    before = f"{line.before}{candidates_key(line.shown)}"
    return line.share * float(chances[place]), line.seen, replies, before


def _mixed(
    query: Query, said: Sequence[tuple[_Line, FloatArray]]
) -> tuple[list[tuple[_Line, FloatArray]], FloatArray]:
    """Return the choices of every conversation, and the logarithms of their mean over actions."""
    width, total = len(query.legal_actions), sum(line.share for line, _ in said)
    if not total:
        return [], np.full(width, -np.log(width))
    mean, illegal, kept = np.zeros(width), 0.0, []
    for line, logprobs in said:
        chances, lost = renormalise(logprobs)
        kept.append((line, chances))
        illegal += line.share / total * lost
        for action, chance in zip(line.shown, chances, strict=True):
            mean[query.legal_actions.index(action)] += line.share / total * chance
    with np.errstate(divide="ignore"):
        return kept, np.log(mean * (1.0 - illegal))


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


def exact_figures_of(game: Environment, info_states: InfoStates, policy: Any) -> ExactFigures:
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


def _of_mixture(game: Environment, info_states: InfoStates, mixture: Mixture) -> ExactFigures:
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

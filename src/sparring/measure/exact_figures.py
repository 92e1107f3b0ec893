"""Exact figures of a policy, or of a mixture from which each team draws a member.

In a game of the combinator ``choose``, a seat chooses among candidate actions; it is measured in
its base game, without candidates. Let h be what a seat knows; its policy in the base game is

    P(a | h) = sum over c of  P(c | h) * P(number of a in c | h, c)

where c are the lists of candidates that the seat has seen, up to this decision. Lists of earlier
decisions are weighted by the probability that they lead to the seat's actions in h.
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
from sparring.environments.base import Environment, seats_by_team, side_numbers, teams_of
from sparring.environments.choose import ChooseEnvironment
from sparring.environments.choose.proposer import candidates_key, numerals
from sparring.measure.exploitability import (
    MAX_HISTORIES_TIMES_PLANS,
    check_states,
    evaluate_exploitability,
    has_teams,
    query_policy,
    report_figures,
    team_exploitability,
)
from sparring.measure.info_states import ActionScorer, InfoStates, Query, renormalise
from sparring.ops.game_tree import policy_values
from sparring.play.players.mixture import Mixture

MAX_CONVERSATIONS = 200_000  # largest number of conversations that are enumerated
# an unfinished conversation: (probability, observations, replies, key of earlier candidates)
_Start = tuple[float, tuple[Observation, ...], tuple[str, ...], str]


def base_game(game: Environment) -> Any:
    """Return the game in which exact figures are computed: for ``choose`` its inner game.

    A game in which a seat proposes candidates is returned unchanged; it has no exact figures.
    """
    return game.inner if type(game) is ChooseEnvironment else game


def policy_in_base_game(game: Environment, policy: Any) -> Any:
    """Return a policy of a game as a policy of ``base_game(game)``."""
    return ChooserScorer(game, policy) if type(game) is ChooseEnvironment else policy


class _CandidateLine(NamedTuple):
    share: float  # probability of the candidates and of the seat's earlier choices
    seen: tuple[Observation, ...]
    replies: tuple[str, ...]
    earlier_key: str  # key of the earlier lists of candidates
    candidates: tuple[str, ...]


class ChooserScorer:
    """Converts a policy that chooses among candidates into a policy of the base game.

    Args:
        game: the game with candidates.
        policy: the policy; its replies are numbers of candidates.
    """

    def __init__(self, game: ChooseEnvironment, policy: ActionScorer) -> None:
        self.game, self.policy = game, policy

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return the log-probabilities of the base game's actions.

        The probabilities sum to 1 minus the probability of illegal replies. For seats that do not
        choose, the policy's values are returned unchanged. If the seat's earlier actions have
        probability 0, all legal actions are equally likely.

        Args:
            queries: decisions, together with all earlier decisions of the same seat.

        Raises:
            GameError: there are too many conversations, or an earlier decision is missing.
        """
        lines: dict[tuple[int, str], list[tuple[_CandidateLine, FloatArray]]] = {}
        chooser_queries = [query for query in queries if query.seat in self.game.choosers]
        other_queries = [
            replace(query, game=self.game.name)
            for query in queries
            if query.seat not in self.game.choosers
        ]
        other_rows = self.policy.action_logprobs(other_queries) if other_queries else []
        rows: dict[tuple[int, str], FloatArray] = {
            (query.seat, query.key): row
            for query, row in zip(other_queries, other_rows, strict=True)
        }
        for depth in sorted({len(query.actions) for query in chooser_queries}):
            queries_at_depth = [query for query in chooser_queries if len(query.actions) == depth]
            histories = [self._lines(query, lines) for query in queries_at_depth]
            line_queries = [
                self._query_of(query, line)
                for query, lines_of_query in zip(queries_at_depth, histories, strict=True)
                for line in lines_of_query
            ]
            line_logprobs = iter(self.policy.action_logprobs(line_queries))
            for query, lines_of_query in zip(queries_at_depth, histories, strict=True):
                key = (query.seat, query.key)
                lines[key], rows[key] = _mix_choices(
                    query, [(line, next(line_logprobs)) for line in lines_of_query]
                )
        return [rows[query.seat, query.key] for query in queries]

    def _lines(
        self, query: Query, lines_of: dict[tuple[int, str], list[tuple[_CandidateLine, FloatArray]]]
    ) -> list[_CandidateLine]:
        offers = self.game.proposer.possible_lists(query.legal_actions)
        starts: list[_Start] = [(1.0, (), (), "")]
        if query.actions:
            choices = lines_of.get((query.seat, query.seen[-2].key))
            if choices is None:
                raise GameError(
                    f"{self.game.name}: the decision of seat {query.seat} before {query.key!r} is "
                    "not among the information states; query all of them at once."
                )
            starts = [_after_choice(line, chances, query.actions[-1]) for line, chances in choices]
        starts = [start for start in starts if start[0] > 0]
        if len(starts) * len(offers) > MAX_CONVERSATIONS:
            raise GameError(
                f"{self.game.name}: no exact figures, because {len(starts) * len(offers):,} lists "
                f"of candidates lead to one information state; the limit is {MAX_CONVERSATIONS:,}."
            )
        return [
            _CandidateLine(
                share * chance,
                (*seen, self.game.add_candidates(query.seen[-1], candidates, candidates_key)),
                replies,
                candidates_key,
                candidates,
            )
            for share, seen, replies, candidates_key in starts
            for chance, candidates in offers
        ]

    def _query_of(self, query: Query, line: _CandidateLine) -> Query:
        return Query(
            game=self.game.name,
            seat=query.seat,
            key=line.seen[-1].key,
            observations=tuple(seen.text for seen in line.seen),
            actions=line.replies,
            legal_actions=numerals(len(line.candidates)),
            seen=line.seen,
            teams=query.teams,
        )


def _after_choice(line: _CandidateLine, chances: FloatArray, action: str) -> _Start:
    if action not in line.candidates:
        return 0.0, (), (), ""
    index = line.candidates.index(action)
    replies = (*line.replies, numerals(len(line.candidates))[index])
    key = f"{line.earlier_key}{candidates_key(line.candidates)}"
    return line.share * float(chances[index]), line.seen, replies, key


def _mix_choices(
    query: Query, lines: Sequence[tuple[_CandidateLine, FloatArray]]
) -> tuple[list[tuple[_CandidateLine, FloatArray]], FloatArray]:
    """Return (choices of every conversation, log-probabilities of the base game's actions)."""
    num_actions, total_share = len(query.legal_actions), sum(line.share for line, _ in lines)
    if not total_share:
        return [], np.full(num_actions, -np.log(num_actions))
    mean_chances, illegal_mass, choices = np.zeros(num_actions), 0.0, []
    for line, logprobs in lines:
        chances, illegal_share = renormalise(logprobs)
        choices.append((line, chances))
        illegal_mass += line.share / total_share * illegal_share
        for action, chance in zip(line.candidates, chances, strict=True):
            mean_chances[query.legal_actions.index(action)] += line.share / total_share * chance
    with np.errstate(divide="ignore"):
        return choices, np.log(mean_chances * (1.0 - illegal_mass))


class ExactFigures(NamedTuple):
    """Results of enumeration.

    Args:
        figures: exact figures by metric name.
        values: expected return of each seat when the policy plays all seats.
        note: a sentence on undefined figures, or "".
    """

    figures: dict[str, float]
    values: tuple[float, ...]
    note: str = ""


def exact_figures_of(game: Environment, info_states: InfoStates, policy: Any) -> ExactFigures:
    """Return the exact figures of a policy, or of a mixture.

    The seats of a team share one draw from a mixture; its weights may differ between teams. If a
    team has several seats, no single policy equals the mixture: there is no NashConv, and the gain
    of a team is computed from the members. Otherwise each seat draws alone, and the figures are
    those of the equivalent single policy.

    Args:
        game: the policy's game.
        info_states: result of ``enumerate_info_states(base_game(game))``.
        policy: the policy of every seat.

    Raises:
        SparringError: as in ``evaluate_exploitability``.
        GameError: as in ``evaluate_exploitability``, or there are too many combinations of members.
    """
    if has_teams(teams_of(game)) and isinstance(policy, Mixture):
        return _mixture_figures(game, info_states, policy)
    report = evaluate_exploitability(
        base_game(game), info_states, policy_in_base_game(game, policy)
    )
    return ExactFigures(report_figures(game, report), report.values)


def _mixture_figures(game: Environment, info_states: InfoStates, mixture: Mixture) -> ExactFigures:
    check_states(base_game(game), info_states)
    teams, name = tuple(teams_of(game)), game.name
    members = list(mixture.shares())
    scorers: list[Any] = [policy_in_base_game(game, mixture.agent(member)) for member in members]
    weights = np.array(
        [
            _weights_of(mixture.mixture_of_seat(game, seats[0]), members)
            for seats in seats_by_team(teams)
        ]
    )
    team_of_state = np.array(side_numbers(teams))[info_states.seats]
    policies = [query_policy(scorer, info_states) for scorer in scorers]
    illegal_masses = np.array([row for _, row in policies])
    profiles = [profile for profile, _ in policies]
    values, illegal_share = _values_over_draws(
        info_states, len(teams), team_of_state, profiles, weights, illegal_masses
    )
    figures = {
        f"illegal_mass/{name}": _mean_illegal_mass(weights, team_of_state, illegal_masses),
        f"illegal_mass_reached/{name}": illegal_share,
    }
    note = (
        f"{name}: no NashConv of a mixture, because the seats of a team share its draw, so no "
        "policy of single seats is equivalent; "
    )
    report = team_exploitability(info_states, teams, profiles, weights.tolist())
    if report is None:
        note += "its teams have too many plans to try. Measure a single member (--answer policy)."
    else:
        figures[f"team_exploitability/{name}"] = report.team_exploitability
        figures[f"one_seat_exploitability/{name}"] = report.one_seat_exploitability
        note += "team_exploitability and one_seat_exploitability measure the mixture."
    return ExactFigures(figures, tuple(values.tolist()), note)


def _weights_of(mixture: Mixture, members: Sequence[PlayerRef]) -> FloatArray:
    shares = mixture.shares()
    weights = np.array([shares.get(member, 0.0) for member in members])
    team_weights: FloatArray = weights / weights.sum()
    return team_weights


def _mean_illegal_mass(weights: FloatArray, team_of_state: IntArray, masses: FloatArray) -> float:
    """Return the probability of an illegal reply, mean over information states.

    Args:
        weights: weight of each member in each team, [S, K].
        team_of_state: team of each information state, [I].
        illegal: illegal mass of each member in each information state, [K, I].
    """
    mass = 0.0
    for row in dict.fromkeys(map(tuple, weights.tolist())):  # merges teams with equal weights
        state_indices = np.flatnonzero((weights == row).all(axis=1)[team_of_state])
        mean_by_member = masses.take(state_indices, axis=1).mean(axis=1)
        mass += len(state_indices) / len(team_of_state) * float(np.array(row) @ mean_by_member)
    return mass


def _values_over_draws(
    info_states: InfoStates,
    seats: int,
    team_of_state: IntArray,
    profiles: Sequence[Sequence[FloatArray]],
    weights: FloatArray,
    masses: FloatArray,
) -> tuple[FloatArray, float]:
    """Return (expected return of each seat [P], illegal probability of a turn), over all draws.

    Args:
        info_states: information states of the environment.
        seats: number of seats.
        team_of_state: team of each information state, [I].
        profiles: profiles of the K members.
        weights: weight of each member in each team, [S, K].
        illegal: illegal mass of each member in each information state, [K, I].
    """
    tree, teams = info_states.tree, team_of_state.tolist()
    members_of_teams = [np.flatnonzero(row).tolist() for row in weights]
    num_draws = math.prod(map(len, members_of_teams))
    if num_draws * len(tree.parent) > MAX_HISTORIES_TIMES_PLANS:
        raise GameError(
            f"{info_states.rules}: {num_draws} draws of {len(members_of_teams)} teams from "
            f"{len(profiles)} members are too many for exact figures; measure a single member "
            "(--answer policy), or matches."
        )
    values, illegal_visits, visits = np.zeros(seats), 0.0, 0.0
    for draw in itertools.product(*members_of_teams):
        share = math.prod(float(weights[team, member]) for team, member in enumerate(draw))
        profile = [profiles[draw[team]][index] for index, team in enumerate(teams)]
        draw_values = policy_values(tree, info_states.seats, profile)
        illegal_shares = np.array([masses[draw[team], index] for index, team in enumerate(teams)])
        values += share * draw_values.returns
        illegal_visits += share * float(draw_values.reach @ illegal_shares)
        visits += share * float(draw_values.reach.sum())
    return values, illegal_visits / visits

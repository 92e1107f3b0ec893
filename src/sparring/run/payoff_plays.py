"""Fills a league's payoff book (payoffs between players), by episodes or with exact results.

Exact results use the same policies as exact evaluation: in every information state, probabilities
are renormalised over the legal actions.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparring.config import RunConfig
from sparring.config.checks import NON_MIXTURE_ANSWERS
from sparring.config.sections import EXACT
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.records import LEARNER, FloatArray, PlayerRef
from sparring.core.rng import Stream
from sparring.engine.protocol import Engine
from sparring.environments.base import Environment, seats_by_player, seats_by_team, teams_of
from sparring.league.meta_game import apart_keys, check_sides, pair_shares, solvers_of
from sparring.league.payoffs import TOLERANCE, IdentityKey, Payoffs, Results, RowKey, pair_row_keys
from sparring.measure.exploitability import history_reach, query_policy
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.play.spec import EpisodeSpec, untrained_spec
from sparring.play.team import rollout_teams


def with_exact(
    config: RunConfig, engine: Engine, book: Payoffs, *, self_play: bool = False
) -> Payoffs:
    """Return the book with exact results for all pairs of members without one.

    A member does not change, so each pair is computed once. As in episodes among members, the first
    member of a pair plays the first side, and the second member plays all other seats.

    Args:
        config: the run's configuration.
        engine: the run's models.
        book: the book so far.
        self_play: whether to add each member's result against itself.

    Raises:
        GameError: exact values are not possible; see ``check_exact``.
    """
    several_learners = bool(config.league.learners)
    self_pairs = [(member, member) for member in engine.members] if self_play else []
    for game in _environments_with_sides(engine):
        pairs = [
            pair
            for pair in (*itertools.permutations(engine.members, 2), *self_pairs)
            if not book.results(*pair, environment=game.name).exact
        ]
        states = _enumerate_states(IdentityKey(game), config.evaluation.max_states)
        probabilities: dict[PlayerRef, list[FloatArray]] = {}
        for member in dict.fromkeys(itertools.chain.from_iterable(pairs)):
            scorer: Any = engine.agent(member)
            probabilities[member] = query_policy(scorer, states)[0]
        results: dict[RowKey, Results] = {}
        for pair in pairs:
            results |= pair_results(game, states, pair, probabilities, by_policy=several_learners)
        book = book.with_exact(results)
    return book


def pair_results(
    game: Environment,
    states: InfoStates,
    pair: tuple[PlayerRef, PlayerRef],
    policies: Mapping[PlayerRef, Sequence[FloatArray]],
    *,
    by_policy: bool = False,
) -> dict[RowKey, Results]:
    """Return the exact results of two members; the first member plays the first side.

    With reach(z) the probability of a terminal history z, and u(z) the payoff of the player's side,

        mean return = sum over z of reach(z) u(z),    P(win) = sum over z of reach(z) [u(z) > u'(z)]

    With three or more sides, a row is the mean over the opponent's sides.

    Args:
        game: the environment.
        states: result of ``enumerate_info_states(game)``.
        pair: two members.
        policies: both members' probabilities of the legal actions in each information state.
        by_policy: as in ``Payoffs.with_episodes``.
    """
    teams = tuple(teams_of(game))
    first_side = seats_by_player(teams)[0]
    players = tuple(pair[seat not in first_side] for seat in range(game.num_seats))
    rows = [policies[players[seat]][state] for state, seat in enumerate(states.seats.tolist())]
    reach = history_reach(states, rows)[states.tree.terminal]
    is_cooperative = len(seats_by_team(teams)) == 1
    payoffs = [states.tree.returns[:, side].mean(axis=1) for side in seats_by_player(teams)]
    row_results: dict[RowKey, list[Results]] = {}
    for row, own_side, other_side in pair_row_keys(game.name, players, teams, by_policy):
        if row.player != row.opponent or pair[0] == pair[1]:
            u, v = payoffs[own_side], payoffs[other_side]
            result = _exact_results(reach, u, v, can_win=not is_cooperative)
            row_results.setdefault(row, []).append(result)
    return {row: _mean_results(results) for row, results in row_results.items()}


def check_exact(config: RunConfig, engine: Engine) -> None:
    """Check that the environments and the learners' policies allow exact values.

    Args:
        config: the run's configuration.
        engine: the engine, which has the environments and the learners.

    Raises:
        ConfigError: an environment has too many information states, or no tree of histories; or a
            policy has no reply probabilities.
    """
    for game in _environments_with_sides(engine):
        try:
            states = _enumerate_states(IdentityKey(game), config.evaluation.max_states)
            for name in config.league.tags:
                scorer: Any = engine.agent(LEARNER.for_policy(name))
                query_policy(scorer, states)
        except TooLargeError:
            raise ConfigError(
                f"league.plays: exact enumerates the tree of an environment, and {game.name!r} "
                f"has more than {config.evaluation.max_states:,} information states "
                "(evaluation.max_states), or too many histories; write league.plays: 2000, "
                "for example, so that members play."
            ) from None
        except GameError as error:
            raise ConfigError(
                f"league.plays: {game.name!r} has no exact values; write league.plays: "
                f"2000, for example, so that members play. The reason: {error}"
            ) from None


def _environments_with_sides(engine: Engine) -> Iterator[Environment]:
    for game, weight in engine.environments:
        if weight and len(seats_by_player(tuple(teams_of(game)))) > 1:
            yield game


@lru_cache(maxsize=8)  # enumeration is slow and does not depend on policies
def _enumerate_states(game: IdentityKey[Environment], limit: int) -> InfoStates:
    return enumerate_info_states(game.value, limit=limit)


def _exact_results(reach: FloatArray, u: FloatArray, v: FloatArray, *, can_win: bool) -> Results:
    """Return the exact results of one side against another.

    Args:
        reach: probability of each terminal history, [Z].
        u: payoff of the side in each terminal history, [Z].
        v: payoff of the other side, [Z].
        can_win: whether the environment has a winner.
    """
    largest_payoff = np.maximum(np.abs(u), np.abs(v))
    is_draw = np.abs(u - v) <= np.maximum(TOLERANCE * largest_payoff, TOLERANCE)
    win, loss = (reach[~is_draw & (u > v)].sum(), reach[~is_draw & (u < v)].sum())
    return Results(
        games=1,
        wins=float(win) if can_win else 0,
        draws=float(reach[is_draw].sum()) if can_win else 0,
        losses=float(loss) if can_win else 0,
        returns=float(reach @ u),
        exact=True,
    )


def _mean_results(results: Sequence[Results]) -> Results:
    total, share = sum(results[1:], results[0]), 1 / len(results)
    return Results(
        games=1,
        wins=share * total.wins,
        draws=share * total.draws,
        losses=share * total.losses,
        returns=share * total.returns,
        exact=True,
    )


Pair = tuple[PlayerRef, PlayerRef]
ROUNDS = 4  # rounds of focused episodes; the meta-strategy is solved between rounds
MIN_SHARE = 1e-9  # smallest share of a pair, so that every pair plays once


def with_plays(config: RunConfig, engine: Engine, book: Payoffs, step: int) -> Payoffs:
    """Return the book with the results of ``league.plays`` more episodes in each environment.

    The pair with the fewest episodes plays next; its members take turns at the first side. With
    ``focus``, this holds only in the first of four rounds. Before each later round the
    meta-strategy is solved, and the pair furthest below its share plays next (``league.focus``).
    With ``plays: exact`` no episode is played, and the results are exact.

    Args:
        config: the run's configuration.
        engine: the run's models.
        book: the payoffs of the earlier episodes.
        step: number of finished steps; this and the run's seed determine every random draw.

    Raises:
        RolloutError: an episode fails beyond its retries.
        GameError: exact results are not possible (see ``check_exact``), or with ``focus`` the
            meta-solver cannot solve the meta-game.
    """
    plays, self_play = config.league.plays, bool(apart_keys(config))
    if plays == EXACT:
        return with_exact(config, engine, book, self_play=self_play)
    root = engine.root.child("payoffs").child(step)
    for game_index, (game, weight) in enumerate(engine.environments):
        sides = seats_by_player(tuple(teams_of(game)))
        if not weight or len(sides) < 2 or not plays:
            continue
        for start, end in _round_ranges(plays, config.league.focus):
            shares = _pair_shares(config, engine, book, game) if start else None
            pairs = next_pairs(book, engine.members, game.name, shares, self_play=self_play)
            numbered_pairs = zip(range(start, end), pairs, strict=False)
            specs = [
                _spec(game, sides, pair, number, root.child(game_index))
                for number, pair in numbered_pairs
            ]
            agents = {
                str(player): engine.agent(player) for spec in specs for player in spec.players
            }
            rollout = rollout_teams(specs, agents, retries=config.rollout.retries)
            several_learners = bool(config.league.learners)
            book = book.with_episodes(
                rollout.require_any().episodes,
                {game.name: teams_of(game)},
                by_policy=several_learners,
            )
    return book


def next_pairs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    shares: Sequence[float] | None = None,
    *,
    self_play: bool = False,
) -> Iterator[Pair]:
    """Yield the next pairs of members, endlessly; yield none if there is only one member.

    Args:
        book: the results so far.
        members: members of the league.
        environment: label of the environment.
        shares: each pair's share of all episodes, in the order of ``itertools.combinations(members,
            2)``; None: equal shares.
        self_play: whether each member also plays itself, as often as it plays another member
            from one side.
    """
    pairs = list(itertools.combinations(members, 2))
    counts = [book.results(*pair, environment=environment).games for pair in pairs]
    weights = [1.0] * len(pairs) if shares is None else [max(share, MIN_SHARE) for share in shares]
    if self_play:  # a member's game with itself counts once for each side
        pairs += [(member, member) for member in members]
        counts += [
            book.results(member, member, environment=environment).games for member in members
        ]
        weights += [sum(weights) / max(len(weights), 1) or 1.0] * len(members)
    queue = [(games / weights[index], 0, index) for index, games in enumerate(counts)]
    heapq.heapify(queue)
    while queue:
        _, is_swapped, index = queue[0]
        yield pairs[index][::-1] if is_swapped else pairs[index]
        counts[index] += 1 if pairs[index][0] != pairs[index][1] else 2
        heapq.heapreplace(queue, (counts[index] / weights[index], 1 - is_swapped, index))


def _round_ranges(plays: int, focus: float) -> list[tuple[int, int]]:
    ends = [plays * index // ROUNDS for index in range(ROUNDS + 1)] if focus else [0, plays]
    return [(start, end) for start, end in itertools.pairwise(ends) if start < end]


def _pair_shares(
    config: RunConfig, engine: Engine, book: Payoffs, game: Environment
) -> list[float] | None:
    if len(engine.members) < 2:
        return None
    solver = next(iter(solvers_of(config).values()))
    focus = config.league.focus
    return pair_shares(book, engine.members, game.name, solver=solver, focus=focus)


def _spec(
    game: Environment, sides: Sequence[Sequence[int]], pair: Pair, number: int, root: Stream
) -> EpisodeSpec:
    """Return the spec of an episode in which the pair's first member plays the first side."""
    seats = [pair[seat not in sides[0]] for seat in range(game.num_seats)]
    return untrained_spec(game, number, seats, root.child(number))


log = logging.getLogger(__name__)


def check_league(
    config: RunConfig, environments: Iterable[tuple[Any, float]], engine: Engine | None = None
) -> None:
    """Check that league settings fit the environments; warn if a meta-solver has no payoffs.

    Args:
        config: the run's configuration.
        environments: the run's environments, each with its weight.
        engine: the engine with environments and learners; None: exact values are not checked.

    Raises:
        ConfigError: a solver or ``sides: apart`` is for two sides, and an environment has others,
            ``league.plays: exact`` is impossible, or ``league.focus`` has no solver.
    """
    if config.league.plays == EXACT and engine is not None:
        check_exact(config, engine)
    solvers = solvers_of(config)
    if config.league.focus and not solvers:
        raise ConfigError(
            "league.focus weighs members by a meta-strategy, but this run names no meta-solver; "
            "write league.answer: nash, for example, or matchmaker: {name: meta_strategy}."
        )
    environments = list(environments)
    _check_apart(config, environments)
    trained_games = [game for game, weight in environments if weight]
    for key, solver in solvers.items():
        check_sides(solver, trained_games, key)
        needs_payoffs = solver.plugin.declarations.READS_PAYOFFS
        if needs_payoffs and config.league.every and not config.league.plays:
            log.warning(
                "%s: members never play each other, as league.plays is 0, so %s takes all payoffs "
                "as 0; write league.plays: 500, for example, or exact.",
                key,
                solver.plugin.name,
            )


def _check_apart(config: RunConfig, environments: Iterable[tuple[Any, float]]) -> None:
    """Check that with ``sides: apart`` every environment has exactly two sides.

    Held-out environments count only if a mixture per side is evaluated in them.
    """
    is_mixture = config.league.answer not in NON_MIXTURE_ANSWERS
    for key in apart_keys(config):
        for game, weight in environments:
            num_sides = len(seats_by_player(tuple(teams_of(game))))
            if num_sides != 2 and (weight or is_mixture):
                note = "" if weight else " (held out, and measured)"
                raise ConfigError(
                    f"{key}: apart is for two sides, and {game.name!r}{note} has {num_sides}; "
                    "write sides: together, or leave the environment out."
                )

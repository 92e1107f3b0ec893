"""The payoff book of a league filled, by plays among its members or by exact results.

Exact results are of the policies that exact evaluation measures: each renormalised over the legal
actions of every information state.
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
from sparring.config.checks import PLAIN
from sparring.config.sections import EXACT
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.records import LEARNER, FloatArray, PlayerRef
from sparring.core.rng import Stream
from sparring.engine.protocol import Engine
from sparring.environments.base import Environment, filled_together, sides_of, teams_of
from sparring.league.meta_game import apart_by, check_sides, pair_shares, solvers_of
from sparring.league.payoffs import TIE, Held, Payoffs, Results, Row, meetings_of
from sparring.measure.exploitability import history_reach, query_policy
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.play.spec import EpisodeSpec, alone
from sparring.play.team import rollout_teams


def with_exact(
    config: RunConfig, engine: Engine, book: Payoffs, *, itself: bool = False
) -> Payoffs:
    """Return the book with exact results of every two members that have none yet.

    A member does not change, so that a pair is computed once. All seats but those of the first side
    are one player's, as where members play (``run.payoff_plays``).

    Args:
        config: of the run.
        engine: its models.
        book: the book so far.
        itself: whether a member's results against itself are wanted as well.

    Raises:
        GameError: an environment, or a policy, allows no exact values; see ``check_exact``.
    """
    apart = bool(config.league.learners)
    alone = [(one, one) for one in engine.members] if itself else []
    for game in _shared(engine):
        pairs = [
            pair
            for pair in (*itertools.permutations(engine.members, 2), *alone)
            if not book.results(*pair, environment=game.name).exact
        ]
        states = _states(Held(game), config.evaluation.max_states)
        asked: dict[PlayerRef, list[FloatArray]] = {}
        for member in dict.fromkeys(itertools.chain.from_iterable(pairs)):
            scorer: Any = engine.agent(member)
            asked[member] = query_policy(scorer, states)[0]
        found: dict[Row, Results] = {}
        for pair in pairs:
            found |= pair_results(game, states, pair, asked, apart=apart)
        book = book.with_exact(found)
    return book


def pair_results(
    game: Environment,
    states: InfoStates,
    pair: tuple[PlayerRef, PlayerRef],
    policies: Mapping[PlayerRef, Sequence[FloatArray]],
    *,
    apart: bool = False,
) -> dict[Row, Results]:
    """Return the exact results of two members, of whom the first one sits in the first side.

    With reach(z) the probability of an end z of the game, and u(z) what the player's side is paid,

        mean return = sum over z of reach(z) u(z),    P(win) = sum over z of reach(z) [u(z) > u'(z)]

    Where there are three sides or more, a row is the mean over all sides that the opponent has.

    Args:
        game: the environment.
        states: of ``enumerate_info_states(game)``.
        pair: two members.
        policies: of both, probabilities of the legal actions of each information state.
        apart: as for ``Payoffs.after``.
    """
    teams = tuple(teams_of(game))
    first = filled_together(teams)[0]
    seated = tuple(pair[seat not in first] for seat in range(game.num_seats))
    rows = [policies[seated[seat]][place] for place, seat in enumerate(states.seats.tolist())]
    ends = history_reach(states, rows)[states.tree.terminal]
    together = len(sides_of(teams)) == 1
    paid = [states.tree.returns[:, side].mean(axis=1) for side in filled_together(teams)]
    found: dict[Row, list[Results]] = {}
    for row, own, other in meetings_of(game.name, seated, teams, apart):
        if row.player != row.opponent or pair[0] == pair[1]:
            result = _results(ends, paid[own], paid[other], decided=not together)
            found.setdefault(row, []).append(result)
    return {row: _mean(own) for row, own in found.items()}


def check_exact(config: RunConfig, engine: Engine) -> None:
    """Refuse exact values where an environment or a learner's policy allows none.

    Args:
        config: of the run.
        engine: that has the environments and the learners.

    Raises:
        ConfigError: an environment has too many information states, or no tree of histories; or
            not every reply of a policy has a probability.
    """
    for game in _shared(engine):
        try:
            states = _states(Held(game), config.evaluation.max_states)
            for name in config.league.tags:
                scorer: Any = engine.agent(LEARNER.of(name))
                query_policy(scorer, states)
        except TooLargeError:
            raise ConfigError(
                f"league.plays: exact walks the whole tree of an environment, and {game.name!r} "
                f"has more than {config.evaluation.max_states:,} information states "
                "(evaluation.max_states), or too many histories; write league.plays: 2000, say, "
                "so that members play."
            ) from None
        except GameError as error:
            raise ConfigError(
                f"league.plays: there are no exact values of {game.name!r}; write league.plays: "
                f"2000, say, so that members play. The reason: {error}"
            ) from None


def _shared(engine: Engine) -> Iterator[Environment]:
    for game, weight in engine.environments:
        if weight and len(filled_together(tuple(teams_of(game)))) > 1:
            yield game


@lru_cache(maxsize=8)  # the walk is long, and no policy changes it
def _states(held: Held[Environment], limit: int) -> InfoStates:
    return enumerate_info_states(held.value, limit=limit)


def _results(ends: FloatArray, own: FloatArray, other: FloatArray, *, decided: bool) -> Results:
    """Return the results of a side against another.

    Args:
        ends: probability of each end of the game, [Z].
        own: what the side is paid there, [Z].
        other: what the other one is paid, [Z].
        decided: whether somebody wins.
    """
    larger = np.maximum(np.abs(own), np.abs(other))
    equal = np.abs(own - other) <= np.maximum(TIE * larger, TIE)
    won, lost = ends[~equal & (own > other)].sum(), ends[~equal & (own < other)].sum()
    return Results(
        games=1,
        wins=float(won) if decided else 0,
        draws=float(ends[equal].sum()) if decided else 0,
        losses=float(lost) if decided else 0,
        returns=float(ends @ own),
        exact=True,
    )


def _mean(found: Sequence[Results]) -> Results:
    total, share = sum(found[1:], found[0]), 1 / len(found)
    return Results(
        games=1,
        wins=share * total.wins,
        draws=share * total.draws,
        losses=share * total.losses,
        returns=share * total.returns,
        exact=True,
    )


Pair = tuple[PlayerRef, PlayerRef]
ROUNDS = 4  # of plays that are focused: the meta-strategy is solved between them
LEAST = 1e-9  # share of a pair that is to have none: it plays once, as it might matter


def with_plays(config: RunConfig, engine: Engine, book: Payoffs, step: int) -> Payoffs:
    """Return the book with the results of ``league.plays`` more plays in each environment.

    The two members that have played least against each other play next. Each of them sits as often
    in the first side as the other, or once more. With ``focus`` the first of four rounds is played
    so; before each other one the meta-strategy is solved, and the pair plays next that has least of
    its share (``league.focus``). With ``plays: exact`` nobody plays, and the
    results are exact.

    Args:
        config: of the run.
        engine: its models.
        book: of what was played before.
        step: steps done; with the run's seed it determines every draw.

    Raises:
        RolloutError: a play fails again and again.
        GameError: results are to be exact, and cannot be; see ``check_exact``. Or the
            plays are focused, and the meta-solver cannot solve the meta-game.
    """
    plays, itself = config.league.plays, bool(apart_by(config))
    if plays == EXACT:
        return with_exact(config, engine, book, itself=itself)
    root = engine.root.child("payoffs").child(step)
    for place, (game, weight) in enumerate(engine.environments):
        sides = filled_together(tuple(teams_of(game)))
        if not weight or len(sides) < 2 or not plays:
            continue
        for first, last in _rounds(plays, config.league.focus):
            shares = _shares(config, engine, book, game) if first else None
            pairs = next_pairs(book, engine.members, game.name, shares, itself=itself)
            numbered = zip(range(first, last), pairs, strict=False)
            specs = [
                _spec(game, sides, pair, number, root.child(place)) for number, pair in numbered
            ]
            agents = {str(who): engine.agent(who) for spec in specs for who in spec.players}
            rollout = rollout_teams(specs, agents, retries=config.rollout.retries)
            apart = bool(config.league.learners)
            book = book.after(rollout.some().episodes, {game.name: teams_of(game)}, apart=apart)
    return book


def next_pairs(
    book: Payoffs,
    members: Sequence[PlayerRef],
    environment: str,
    shares: Sequence[float] | None = None,
    *,
    itself: bool = False,
) -> Iterator[Pair]:
    """Yield which two members meet next, without end; nobody where there is one member.

    Args:
        book: how often they have met.
        members: of the league.
        environment: its label.
        shares: of all plays, that each pair is to have, in the order of
            ``itertools.combinations(members, 2)``; None: all the same.
        itself: whether a member meets itself as well, as often as it meets another in one side.
    """
    pairs = list(itertools.combinations(members, 2))
    counts = [book.results(*pair, environment=environment).games for pair in pairs]
    parts = [1.0] * len(pairs) if shares is None else [max(share, LEAST) for share in shares]
    if itself:  # each play of one with itself is in the book once for each side
        pairs += [(one, one) for one in members]
        counts += [book.results(one, one, environment=environment).games for one in members]
        parts += [sum(parts) / max(len(parts), 1) or 1.0] * len(members)
    waiting = [(games / parts[place], 0, place) for place, games in enumerate(counts)]
    heapq.heapify(waiting)
    while waiting:
        _, turned, place = waiting[0]
        yield pairs[place][::-1] if turned else pairs[place]
        counts[place] += 1 if pairs[place][0] != pairs[place][1] else 2
        heapq.heapreplace(waiting, (counts[place] / parts[place], 1 - turned, place))


def _rounds(plays: int, focus: float) -> list[tuple[int, int]]:
    ends = [plays * done // ROUNDS for done in range(ROUNDS + 1)] if focus else [0, plays]
    return [(first, last) for first, last in itertools.pairwise(ends) if first < last]


def _shares(
    config: RunConfig, engine: Engine, book: Payoffs, game: Environment
) -> list[float] | None:
    """Return the share of plays that each pair is to have; None where there are no pairs."""
    if len(engine.members) < 2:
        return None
    solver = next(iter(solvers_of(config).values()))
    focus = config.league.focus
    return pair_shares(book, engine.members, game.name, solver=solver, focus=focus)


def _spec(
    game: Environment, sides: Sequence[Sequence[int]], pair: Pair, number: int, root: Stream
) -> EpisodeSpec:
    """Return a play of a pair: the first one sits in the first side, the second in all others."""
    seats = [pair[seat not in sides[0]] for seat in range(game.num_seats)]
    return alone(game, number, seats, root.child(number))


log = logging.getLogger(__name__)


def check_league(
    config: RunConfig, environments: Iterable[tuple[Any, float]], engine: Engine | None = None
) -> None:
    """Refuse what does not fit the environments, and warn of meta-solvers without payoffs.

    Args:
        config: of the run.
        environments: of the run, each with its weight.
        engine: that has them and the learners; None: it is not made, and exact values are not
            tried.

    Raises:
        ConfigError: a solver of two sides stands where there are more teams, or ``sides: apart``
            where there are not two; or there are no exact values where ``league.plays`` asks for
            them, or no solver for ``league.focus``.
    """
    if config.league.plays == EXACT and engine is not None:
        check_exact(config, engine)
    solvers = solvers_of(config)
    if config.league.focus and not solvers:
        raise ConfigError(
            "league.focus weighs members by a meta-strategy, and this run names no meta-solver; "
            "write league.answer: nash, say, or matchmaker: {name: meta_strategy}."
        )
    environments = list(environments)
    _check_apart(config, environments)
    trained = [game for game, weight in environments if weight]
    for where, solver in solvers.items():
        check_sides(solver, trained, where)
        reads = getattr(solver.plugin.module, "READS_PAYOFFS", True)
        if reads and config.league.every and not config.league.plays:
            log.warning(
                "%s: the members never meet, as league.plays is 0, so that %s takes all payoffs "
                "as 0; write league.plays: 500, say, or exact.",
                where,
                solver.plugin.name,
            )


def _check_apart(config: RunConfig, environments: Iterable[tuple[Any, float]]) -> None:
    """Refuse sides that are apart where there are not two.

    An environment that is held out is looked at as well where the answer is a mixture for each
    side, as it is measured there.
    """
    mixed = config.league.answer not in PLAIN
    for where in apart_by(config):
        for game, weight in environments:
            sides = len(filled_together(tuple(teams_of(game))))
            if sides != 2 and (weight or mixed):
                what = "" if weight else " (held out, and measured)"
                raise ConfigError(
                    f"{where}: apart is for two sides, and {game.name!r}{what} has {sides}; write "
                    "sides: together, or leave the environment out."
                )

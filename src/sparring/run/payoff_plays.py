"""Plays among the members of a league, which fill its payoff book."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence

from sparring.config import RunConfig
from sparring.config.league import EXACT
from sparring.engine.base import Engine
from sparring.environments.base import filled_together, teams_of
from sparring.environments.openspiel.base import Game
from sparring.league.focus import pair_shares
from sparring.league.named import apart_by, solvers_of
from sparring.league.payoffs import Payoffs
from sparring.refs import PlayerRef
from sparring.rng import Stream
from sparring.rollout.spec import EpisodeSpec, alone
from sparring.rollout.team import rollout_teams
from sparring.run.exact_payoffs import with_exact

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
        GameError: results are to be exact, and cannot be; see ``exact_payoffs.check_exact``. Or the
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
    """Return the numbers of the first play of each round, and of the one after its last."""
    ends = [plays * done // ROUNDS for done in range(ROUNDS + 1)] if focus else [0, plays]
    return [(first, last) for first, last in itertools.pairwise(ends) if first < last]


def _shares(config: RunConfig, engine: Engine, book: Payoffs, game: Game) -> list[float] | None:
    """Return the share of plays that each pair is to have; None where there are no pairs."""
    if len(engine.members) < 2:
        return None
    solver = next(iter(solvers_of(config).values()))
    focus = config.league.focus
    return pair_shares(book, engine.members, game.name, solver=solver, focus=focus)


def _spec(
    game: Game, sides: Sequence[Sequence[int]], pair: Pair, number: int, root: Stream
) -> EpisodeSpec:
    """Return a play of a pair: the first one sits in the first side, the second in all others."""
    seats = [pair[seat not in sides[0]] for seat in range(game.num_seats)]
    return alone(game, number, seats, root.child(number))

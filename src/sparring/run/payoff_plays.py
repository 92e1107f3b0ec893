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
from sparring.league.payoffs import Payoffs
from sparring.refs import PlayerRef
from sparring.rng import Stream
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.team import play_teams
from sparring.run.exact_payoffs import with_exact

Pair = tuple[PlayerRef, PlayerRef]


def with_plays(config: RunConfig, engine: Engine, book: Payoffs, step: int) -> Payoffs:
    """Return the book with the results of ``league.plays`` more plays in each environment.

    The two members that have played least against each other play next. Each of them sits as often
    in the first side as the other, or once more. With ``plays: exact`` nobody plays, and the
    results are exact.

    Args:
        config: of the run.
        engine: its models.
        book: of what was played before.
        step: steps done; with the run's seed it determines every draw.

    Raises:
        RolloutError: a play fails again and again.
        GameError: results are to be exact, and cannot be; see ``exact_payoffs.check_exact``.
    """
    plays = config.league.plays
    if plays == EXACT:
        return with_exact(config, engine, book)
    root = engine.root.child("payoffs").child(step)
    for place, (game, weight) in enumerate(engine.environments):
        sides = filled_together(tuple(teams_of(game)))
        if not weight or len(sides) < 2 or not plays:
            continue
        pairs = itertools.islice(next_pairs(book, engine.members, game.name), plays)
        specs = [
            _spec(game, sides, pair, number, root.child(place)) for number, pair in enumerate(pairs)
        ]
        agents = {str(who): engine.agent(who) for spec in specs for who in spec.players}
        episodes = play_teams(specs, agents, retries=config.rollout.retries)
        apart = bool(config.league.learners)
        book = book.after(episodes, {game.name: teams_of(game)}, apart=apart)
    return book


def next_pairs(book: Payoffs, members: Sequence[PlayerRef], environment: str) -> Iterator[Pair]:
    """Yield which two members meet next, without end; nobody where there is one member.

    Args:
        book: how often they have met.
        members: of the league.
        environment: its label.
    """
    pairs = list(itertools.combinations(members, 2))
    counts = [book.results(*pair, environment=environment).games for pair in pairs]
    waiting = [(games, 0, place) for place, games in enumerate(counts)]
    heapq.heapify(waiting)
    while waiting:
        games, turned, place = waiting[0]
        yield pairs[place][::-1] if turned else pairs[place]
        heapq.heapreplace(waiting, (games + 1, 1 - turned, place))


def _spec(
    game: Game, sides: Sequence[Sequence[int]], pair: Pair, number: int, root: Stream
) -> EpisodeSpec:
    """Return a play of a pair: the first one sits in the first side, the second in all others."""
    stream = root.child(number)
    return EpisodeSpec(
        game=game,
        episode_id=number,
        group_id=number,
        deal=stream.child("deal"),
        stream=stream.child("play"),
        seats=tuple(pair[seat not in sides[0]] for seat in range(game.num_seats)),
        trained=(False,) * game.num_seats,
    )

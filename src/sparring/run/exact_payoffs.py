"""Exact results of the members of a league against each other, in place of plays among them.

The members' policies are those that exact evaluation measures: each renormalised over the legal
actions of every information state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.environments.base import filled_together, sides_of, teams_of
from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError, GameError, TooLargeError
from sparring.league.payoffs import Payoffs, Results, Row, meetings_of
from sparring.league.results import TIE
from sparring.measure.exploitability import ask, history_reach
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.refs import LEARNER, PlayerRef
from sparring.system.held import Held
from sparring.types import FloatArray


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
            asked[member] = ask(scorer, states)[0]
        found: dict[Row, Results] = {}
        for pair in pairs:
            found |= pair_results(game, states, pair, asked, apart=apart)
        book = book.with_exact(found)
    return book


def pair_results(
    game: Game,
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
                ask(scorer, states)
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


def _shared(engine: Engine) -> Iterator[Game]:
    """Yield the environments that are trained on in which two members can meet."""
    for game, weight in engine.environments:
        if weight and len(filled_together(tuple(teams_of(game)))) > 1:
            yield game


@lru_cache(maxsize=8)  # the walk is long, and no policy changes it
def _states(held: Held[Game], limit: int) -> InfoStates:
    """Return the information states of an environment."""
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
    """Return the mean of exact results, as those of one game."""
    total, share = sum(found[1:], found[0]), 1 / len(found)
    return Results(
        games=1,
        wins=share * total.wins,
        draws=share * total.draws,
        losses=share * total.losses,
        returns=share * total.returns,
        exact=True,
    )
